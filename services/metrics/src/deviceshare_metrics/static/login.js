// The theme that the page uses.
const stored = localStorage.getItem("deviceshare-theme");
const light = (stored ?? (window.matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark")) === "light";
document.documentElement.dataset.theme = light ? "light" : "dark";
document.getElementById("token").focus();
