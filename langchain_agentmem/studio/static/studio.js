// What Studio does in a browser beyond htmx. Every page can be read and used without it.
"use strict";

// A message that an address names is scrolled to.
function toMarked() {
  document.getElementById("marked")?.scrollIntoView({ block: "center" });
}
document.addEventListener("DOMContentLoaded", toMarked);
document.addEventListener("htmx:afterSettle", toMarked);
