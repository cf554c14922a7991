/** A form on a page, as a browser without JavaScript would post it. */
export interface PageForm {
  /** The values that the form posts if nothing is changed, by field name. */
  fields: Record<string, string>;
  /** The form's checkboxes, keyed by their value. */
  boxes: Record<string, { name: string; checked: boolean }>;
}

/** Returns the page's form that has the given action, or that posts to the page's own URL if it names none. */
export function formOf(html: string, action: string): PageForm {
  const forms = [...html.matchAll(/<form\b[^>]*method="post"[^>]*>.*?<\/form>/gs)].map(([form]) => form);
  const postingTo = (url: string) =>
    forms.find((candidate) => attributeOf(/^<form[^>]*>/.exec(candidate)?.[0] ?? "", "action") === url);
  const form = postingTo(action) ?? postingTo("");
  if (!form) throw new Error(`The page has no form that posts to ${action}.`);
  const page: PageForm = { fields: {}, boxes: {} };
  for (const [input] of form.matchAll(/<input\b[^>]*>/g)) {
    const [name, value] = [attributeOf(input, "name"), attributeOf(input, "value")];
    const isBox = attributeOf(input, "type") === "checkbox";
    const checked = /\schecked(=|\s|\/|>)/.test(input);
    if (isBox) page.boxes[value] = { name, checked };
    if (!isBox || checked) page.fields[name] = value;
  }
  return page;
}

function attributeOf(tag: string, name: string): string {
  const value = new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1] ?? "";
  return value.replaceAll("&amp;", "&").replaceAll("&quot;", '"').replaceAll("&#x27;", "'");
}
