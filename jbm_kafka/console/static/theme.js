// Before anything is drawn: the colours that this browser has chosen.
"use strict";
try {
  document.documentElement.dataset.theme = localStorage.getItem("jbm-theme") || "system";
} catch (refused) {
  document.documentElement.dataset.theme = "system";
}
