// The API in words, from its own OpenAPI description; nothing is loaded from elsewhere.
import { element, table } from "./dom.js";
import { get } from "./api.js";

const place = document.getElementById("docs");

function kind(schema, all) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map((one) => kind(one, all)).join(" or ");
  if (schema.enum) return schema.enum.map((one) => `"${one}"`).join(" or ");
  if (schema.type === "array") return `list of ${kind(schema.items, all)}`;
  if (schema.type === "object" && schema.additionalProperties) return `${kind(schema.additionalProperties, all)} by name`;
  const bounds = [["minimum", "≥"], ["maximum", "≤"], ["exclusiveMinimum", ">"], ["exclusiveMaximum", "<"]].filter(([key]) => schema[key] !== undefined).map(([key, sign]) => `${sign} ${schema[key]}`);
  return [schema.type ?? "", ...bounds].join(" ");
}

function described(name, all) {
  const schema = all[name];
  const rows = Object.entries(schema.properties ?? {}).map(([key, value]) => [key, kind(value, all), value.default === undefined ? "" : JSON.stringify(value.default), value.description ?? ""]);
  return element("section", {}, element("h3", { id: name, text: name }), element("p", { text: schema.description ?? "" }),
    table(name, ["field", "'kind", "'default", "'meaning"], rows));
}

function operation(path, method, one) {
  const body = one.requestBody ? Object.values(one.requestBody.content)[0].schema : null;
  const told = body?.$ref ? body.$ref.split("/").at(-1) : null;
  const data = method === "post" ? (path === "/api/programs" ? " -F file=@part.mpf" : " -H 'content-type: application/json' -d '{}'") : "";
  return element("section", {}, element("h3", { text: `${method.toUpperCase()} ${path}` }), element("p", { text: one.summary ?? "" }),
    element("pre", { tabindex: "0", role: "region", "aria-label": `Example for ${path}` }, element("code", { text: `curl -H "Authorization: Bearer $TOKEN"${data} ${location.origin}${path}` })),
    ...(told ? [element("p", {}, "Body: ", element("a", { href: `#${told}`, text: told }))] : []));
}

const api = await get("/api/openapi.json");
const all = api.components?.schemas ?? {};
place.replaceChildren(
  element("p", { text: api.info.description }),
  element("h2", { text: "Requests" }),
  ...Object.entries(api.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, one]) => operation(path, method, one))),
  element("section", {}, element("h3", { text: "WebSocket /api/stream" }), element("p", { text: "Every new moment as JSON, like GET /api/live; nothing that is sent to it is read." })),
  element("h2", { text: "Bodies" }),
  ...Object.keys(all).filter((name) => name.endsWith("Request")).map((name) => described(name, all)));
