// The scripts of Studio in addition to htmx. Every page works without them.
"use strict";

// Scroll to the message in the address, and to the checkpoint in the tree.
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

// Ignore the response for an earlier position of the slider, since a newer request is pending.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const asked = detail.requestConfig.parameters.number;
  if (asked !== undefined && asked !== document.getElementById("slider")?.value) {
    detail.shouldSwap = false;
  }
});

// Handle a key that was pressed while the slider was being replaced.
document.addEventListener("htmx:afterSettle", () => {
  const slider = document.getElementById("slider");
  if (slider && slider.value !== slider.defaultValue) {
    slider.dispatchEvent(new Event("change", { bubbles: true }));
  }
});
