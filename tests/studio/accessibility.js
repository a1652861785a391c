// What is wrong with the page as it stands: a list of complaints.
(() => {
  const told = [], shown = (one) => one.checkVisibility({ visibilityProperty: true });
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
  const say = (rule, one) => told.push(`${rule}: ${one.outerHTML.slice(0, 140)}`);
  const byIds = (text) => (text ?? "").split(/\s+/).filter(Boolean);
  const named = (one) => (one.getAttribute("aria-label") ?? "").trim() || one.labels?.length || one.textContent.trim()
    || byIds(one.getAttribute("aria-labelledby")).some((id) => document.getElementById(id)?.textContent.trim());
  const focusable = "a[href],button,input,select,textarea,summary,[tabindex]";

  // Names.
  for (const one of all("button,input,select,textarea,a[href],summary,[role=img],[role=region],[role=group],[role=tab],"
    + "[role=tabpanel],[role=tablist],form[aria-label],progress")) if (!named(one)) say("no name", one);
  for (const one of all("input,select,textarea")) {
    if (!one.labels?.length && !one.getAttribute("aria-label")) say("no label", one);
  }
  for (const one of all("img,svg[role=img]")) if (!one.hasAttribute("alt") && !named(one)) say("no text instead", one);

  // Roles, states and what they refer to.
  const roles = ["img", "region", "group", "tab", "tabpanel", "tablist", "status", "alert", "note"];
  for (const one of all("[role]")) if (!one.closest("svg") && !roles.includes(one.getAttribute("role"))) say("role", one);
  for (const tab of all("[role=tab]")) {
    if (!["true", "false"].includes(tab.getAttribute("aria-selected"))) say("tab without a state", tab);
    if (!tab.closest("[role=tablist]")) say("tab outside a list", tab);
  }
  if (all("[role=tab]").length && document.querySelectorAll("[role=tab][aria-selected=true]").length !== 1) told.push("not exactly one chosen tab");
  for (const attribute of ["aria-labelledby", "aria-controls", "aria-describedby", "for"]) {
    for (const one of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of byIds(one.getAttribute(attribute))) if (!document.getElementById(id)) say(`${attribute} leads nowhere`, one);
    }
  }
  for (const one of document.querySelectorAll("[aria-hidden=true]")) if (one.querySelector(focusable)) say("hidden focus", one);
  for (const one of all(focusable)) {
    if (one.tabIndex > 0) say("own order of focus", one);
    if (one.matches("a,button,summary") && one.querySelector("a[href],button,input,select")) say("nested controls", one);
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of ids.filter((one, place) => ids.indexOf(one) < place)) told.push(`doubled id: ${id}`);

  // Structure.
  if (!document.documentElement.lang) told.push("no language");
  if (!document.title) told.push("no title");
  if (document.querySelectorAll("main").length !== 1) told.push("not one main");
  if (all("h1").length !== 1) told.push("not one h1");
  let level = 0;
  for (const one of all("h1,h2,h3,h4")) {
    if (Number(one.localName[1]) > level + 1) say("skipped heading", one);
    level = Number(one.localName[1]);
  }
  for (const one of all("ul,ol")) if ([...one.children].some((child) => child.localName !== "li")) say("list", one);
  for (const one of all("dl")) {
    if ([...one.children].some((child) => !["div", "dt", "dd"].includes(child.localName))) say("list of terms", one);
  }
  for (const one of all("table")) {
    if (!one.querySelector("th[scope=col]") || !one.caption?.textContent.trim()) say("table without heads", one);
  }
  for (const one of all("body *")) {
    const style = getComputedStyle(one);
    const scrolls = ["auto", "scroll"].includes(style.overflowX) && one.scrollWidth > one.clientWidth + 1
      || ["auto", "scroll"].includes(style.overflowY) && one.scrollHeight > one.clientHeight + 1;
    if (scrolls && one.tabIndex < 0 && !one.querySelector(focusable)) say("scrolls without a keyboard", one);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) told.push("the page is wider than the window");

  // Contrast: text 4.5 to 1, large text 3 to 1, edges of controls and the ring around the focus 3 to 1.
  const part = (value) => { value /= 255; return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
  const rgba = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const ratio = (one, other) => { const [a, b] = [light(one), light(other)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
  const behind = (one) => { for (; one; one = one.parentElement) {
    const c = rgba(getComputedStyle(one).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  } return [255, 255, 255]; };
  for (const one of all("body *")) {
    if (one.closest("svg") || one.disabled || ![...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    const style = getComputedStyle(one), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const found = ratio(rgba(style.color), behind(one));
    if (found < (large ? 3 : 4.5)) say(`contrast ${found.toFixed(2)}`, one);
  }
  for (const one of document.querySelectorAll("svg text")) {
    if (!shown(one) || !one.textContent.trim()) continue;
    const found = ratio(rgba(getComputedStyle(one).fill), behind(one.closest("svg").parentElement));
    if (found < 4.5) say(`contrast in the figure ${found.toFixed(2)}`, one);
  }
  for (const one of all("select,input[type=number],button:not([role=tab])")) {
    if (one.disabled) continue;
    const style = getComputedStyle(one);
    if (ratio(rgba(style.borderTopColor), behind(one.parentElement)) < 3 && ratio(behind(one), behind(one.parentElement)) < 3) say("pale edge", one);
  }

  // Fingers: 24 pixels, or room around.
  for (const one of all("button,select,input,summary")) {
    const { width, height } = one.getBoundingClientRect();
    if (width && (width < 24 || height < 24)) say(`small: ${width.toFixed(0)} x ${height.toFixed(0)}`, one);
  }
  return told;
})()
