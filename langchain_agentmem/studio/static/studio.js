// What Studio does in a browser beyond htmx. Every page can be read and used without it.
"use strict";

// A message that an address names is scrolled to, and so is the checkpoint in the tree.
function toMarked() {
  document.getElementById("marked")?.scrollIntoView({ block: "center" });
  const here = document.querySelector(".tree li.here");
  const tree = here?.closest(".tree");
  if (tree) {
    tree.scrollTop += here.getBoundingClientRect().top - tree.getBoundingClientRect().top - tree.clientHeight / 2;
  }
}
document.addEventListener("DOMContentLoaded", toMarked);
document.addEventListener("htmx:afterSettle", toMarked);

// The slider is moved while an answer is on its way: that is no longer wanted, and what follows is asked for already.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const asked = detail.requestConfig.parameters.number;
  if (asked !== undefined && asked !== document.getElementById("slider")?.value) {
    detail.shouldSwap = false;
  }
});

// A key that was pressed while the slider was exchanged, and nobody listened, is heard afterwards.
document.addEventListener("htmx:afterSettle", () => {
  const slider = document.getElementById("slider");
  if (slider && slider.value !== slider.defaultValue) {
    slider.dispatchEvent(new Event("change", { bubbles: true }));
  }
});
