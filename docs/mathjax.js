// Formulas: what the Markdown extension arithmatex marks, MathJax draws.
window.MathJax = {
  tex: {
    inlineMath: [["\\(", "\\)"]],
    displayMath: [["\\[", "\\]"]],
  },
  options: { ignoreHtmlClass: ".*|", processHtmlClass: "arithmatex" },
};
