import { expect, test } from "vitest";
import { quoteHtml, renderTemplate } from "./mail-template.ts";

const render = (template: string, data: Record<string, unknown>) => renderTemplate(template, data, quoteHtml);

test("escapes a template's values, finds nested values and leaves missing ones empty", () => {
  expect(render("{{ .Email }}|{{ .Data.name }}|{{.Nothing}}", { Email: '<a>&"', Data: { name: "N" } })).toBe(
    "&lt;a&gt;&amp;&#34;|N|",
  );
});

test("percent-encodes a value in a link's query but not elsewhere", () => {
  const link = render(
    '<a href="{{ .SiteURL }}/auth/confirm?type=signup&next={{ .RedirectTo }}">{{ .RedirectTo }}</a>',
    {
      SiteURL: "http://localhost:3000",
      RedirectTo: "http://localhost:3000/a?b=1&c=2",
    },
  );
  expect(link).toBe(
    '<a href="http://localhost:3000/auth/confirm?type=signup&next=http%3A%2F%2Flocalhost%3A3000%2Fa%3Fb%3D1%26c%3D2">http://localhost:3000/a?b=1&amp;c=2</a>',
  );
});

test("an email template replaces a link to a javascript: URL with #", () => {
  expect(render('<a href="{{ .Data.url }}">x</a>', { Data: { url: "javascript:alert(1)" } })).toBe('<a href="#">x</a>');
});

test("an email template renders one branch of each if/else, nested or not", () => {
  const template = "{{ if .A }}a{{ if .B }}b{{ else }}c{{ end }}{{ else }}d{{ end }}e";
  expect(render(template, { A: true, B: true })).toBe("abe");
  expect(render(template, { A: true })).toBe("ace");
  expect(render(template, {})).toBe("de");
});

test("an email template cannot read inherited properties", () => {
  expect(render("{{ .Data.constructor }}", { Data: {} })).toBe("");
});

test.each(["{{ if .A }}", "{{ end }}", "{{ .A | html }}", "{{ range .A }}{{ end }}"])(
  "refuses the template %s",
  (template) => {
    expect(() => render(template, {})).toThrow();
  },
);
