// What the pages of pearl review do beyond htmx: keys, focus, and a word when something goes wrong.
"use strict";

(() => {
  const unsaved = new Set();
  const byId = (id) => document.getElementById(id);

  function announce(text) {
    const region = byId("said");
    if (region && text) region.textContent = text;
  }

  function alarm(text) {
    const region = byId("alert");
    if (region) region.textContent = text;
  }

  // --- keys ------------------------------------------------------------------------------------

  const remembered = "pearl-review-keys";

  function keysAreOn() {
    const box = byId("keys-on");
    return box ? box.checked : false;
  }

  function isWriting(element) {
    if (element.matches("textarea, select")) return true;
    return element.matches("input") && !["radio", "checkbox", "button"].includes(element.type);
  }

  function openKeys() {
    const keys = byId("keys");
    keys.open = true;
    keys.querySelector("summary").focus();
    keys.scrollIntoView({ block: "nearest" });
  }

  function use(element) {
    if (element.matches("summary")) {
      element.parentElement.open = true;
      element.parentElement.querySelector("textarea").focus();
    } else if (element.matches("textarea")) {
      element.focus();
    } else {
      element.focus();
      element.click();
    }
  }

  function submit(event) {
    const field = event.target.closest("form[data-guard]");
    const form = field || byId("verdict");
    if (!form) return;
    event.preventDefault();
    form.requestSubmit();
  }

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.altKey || event.metaKey) return;
    if (event.ctrlKey) {
      if (event.key === "Enter") submit(event);
      return;
    }
    if (event.key === "Escape" && isWriting(event.target)) {
      event.target.blur();
      return;
    }
    if (isWriting(event.target) || !keysAreOn()) return;
    if (event.key === "?") {
      event.preventDefault();
      openKeys();
      return;
    }
    if (event.key.length !== 1 || !/[a-z0-9]/.test(event.key)) return;
    const element = document.querySelector(`[data-key="${event.key}"]`);
    if (!element) return;
    event.preventDefault();
    use(element);
  });

  const box = byId("keys-on");
  if (box) {
    box.checked = localStorage.getItem(remembered) !== "off";
    box.addEventListener("change", () => {
      localStorage.setItem(remembered, box.checked ? "on" : "off");
    });
  }

  // --- what is not saved yet -------------------------------------------------------------------

  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-guard]");
    if (form) unsaved.add(form.getAttribute("action"));
  });

  document.addEventListener("submit", (event) => {
    // Without htmx the browser itself sends the form, and leaves the page for it.
    if (!event.defaultPrevented) unsaved.clear();
  });

  function isChanged(form) {
    return [...form.elements].some((field) =>
      field.type === "radio" || field.type === "checkbox"
        ? field.checked !== field.defaultChecked
        : "defaultValue" in field && field.value !== field.defaultValue);
  }

  window.addEventListener("beforeunload", (event) => {
    const forms = [...document.querySelectorAll("form[data-guard]")];
    const open = forms.filter((form) => unsaved.has(form.getAttribute("action")));
    if (open.some(isChanged)) event.preventDefault();
  });

  // --- after htmx ------------------------------------------------------------------------------

  function wasSaved(context) {
    const status = context.response && context.response.status;
    return status >= 200 && status < 300 && context.request.method === "POST";
  }

  document.addEventListener("htmx:after:swap", (event) => {
    const context = event.detail.ctx;
    const action = context.request.action;
    alarm("");
    if (action.endsWith("/check")) return;
    if (wasSaved(context)) unsaved.delete(action);
    const part = action.endsWith("/verdict")
      ? byId("judging")
      : byId(action.endsWith("/run") ? "run" : "versions");
    const trouble = part.querySelector(".trouble[role=alert]");
    const status = part.querySelector(".status");
    if (status) announce(status.textContent.trim());
    const focus = action.endsWith("/verdict")
      ? byId("judging-trouble") || byId("judging-title")
      : action.endsWith("/run") ? byId("run-title") : trouble;
    if (focus) focus.focus();
  });

  const SILENT = "The server does not answer. What you wrote is still here: try again.";

  document.addEventListener("htmx:response:error", (event) => {
    const context = event.detail.ctx;
    if (context.response.status === 422) return;
    const page = new DOMParser().parseFromString(context.text || "", "text/html");
    const told = page.querySelector(".trouble");
    alarm(told ? told.textContent : SILENT);
  });

  document.addEventListener("htmx:error", () => alarm(SILENT));
})();
