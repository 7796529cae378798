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
