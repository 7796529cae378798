// The scripts of Studio in addition to htmx. Every page works without them.
"use strict";

// Scroll to the message in the address, and to the checkpoint in the tree.
function scrollToMarked() {
  document.getElementById("marked")?.scrollIntoView({ block: "center" });
  const current = document.querySelector(".tree li.here");
  const tree = current?.closest(".tree");
  if (tree) {
    tree.scrollTop += current.getBoundingClientRect().top - tree.getBoundingClientRect().top - tree.clientHeight / 2;
  }
}
document.addEventListener("DOMContentLoaded", scrollToMarked);
document.addEventListener("htmx:afterSettle", scrollToMarked);

// Ignore the response for an earlier position of the slider, since a newer request is pending.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const requested = detail.requestConfig.parameters.number;
  if (requested !== undefined && requested !== document.getElementById("slider")?.value) {
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
