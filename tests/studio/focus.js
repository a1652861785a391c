// Where Tab led: every stop must be seen, ringed, and follow its predecessor in the document.
(() => {
  const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
  const ringed = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  window.before ??= null;
  const follows = !window.before || !document.contains(window.before) || one === document.body
    || Boolean(window.before.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);
  window.before = one;
  return { what: one.outerHTML.slice(0, 120), body: one === document.body, ringed, follows, seen: box.width > 0 && box.height > 0 };
})()
