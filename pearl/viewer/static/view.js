// What a page that follows a run does beyond htmx: it says when nobody answers any more.
"use strict";

for (const trouble of ["htmx:error", "htmx:response:error"]) {
  document.addEventListener(trouble, () => {
    const told = document.getElementById("live");
    if (told) told.textContent = "Nobody answers: pearl view was stopped, or is busy.";
  });
}
