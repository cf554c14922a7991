import { describe, expect, test } from "vitest";
import errorsMarkdown from "../../docs/errors.md?raw";
import { areas } from "../api-reference/documents.ts";
import { problems } from "../http/problem.ts";
import { getGuide, guidePaths, guidesByRole, indexPath } from "./guides.ts";
import { renderGuide } from "./render-guide.ts";

const htmlOf = (path: string) =>
  getGuide(path)
    ?.blocks.map((block) => ("html" in block ? block.html : ""))
    .join("") ?? "";
const matchesOf = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, match = ""]) => match);
const idsOf = (path: string) => [getGuide(path)?.id, ...matchesOf(htmlOf(path), / id="([^"]*)"/g)];
const linksOf = (path: string) => matchesOf(htmlOf(path), / href="([^"]*)"/g);

describe("the guides", () => {
  test("link only to pages and ids that the site serves, and all can be reached from the index", () => {
    const documents = areas.map((area) => `/docs/api/${area}.json`);
    const broken: string[] = [];
    const reached = new Set([indexPath]);
    for (const path of reached) {
      for (const link of linksOf(path).filter((href) => !/^https?:/.test(href))) {
        const [to = "", id] = link.split("#");
        if (documents.includes(to)) continue;
        if (!guidePaths.includes(to) || (id !== undefined && !idsOf(to).includes(id))) broken.push(`${path}: ${link}`);
        else reached.add(to);
      }
    }
    expect(broken).toEqual([]);
    const isDecision = (path: string) => path.startsWith("/docs/decisions/");
    expect(guidePaths.filter((path) => !reached.has(path) && !isDecision(path))).toEqual([]);
  });

  test.each(guidePaths)("%s has a title, and no id twice", (path) => {
    expect(getGuide(path)?.title).not.toBe("");
    expect(idsOf(path)).toEqual([...new Set(idsOf(path))]);
  });

  test("are listed by role, and each entry leads to a guide", () => {
    const roles = guidesByRole;
    expect(roles.map(({ title }) => title)).toEqual(expect.arrayContaining(["Developers", "Operators", "Finance"]));
    for (const { tags } of roles) {
      for (const { href } of tags) expect(guidePaths).toContain(href.split("#")[0]);
    }
  });

  test("returns null for a path without a guide", () => {
    expect(getGuide("/docs/README")).toBeNull();
    expect(getGuide("/docs/../package")).toBeNull();
  });
});

describe("the errors guide", () => {
  const [platform = "", gateway = ""] = errorsMarkdown.split(/^## .*$/m).slice(1);
  const codesOf = (section: string) => matchesOf(section, /^\| `(\w+)` \|/gm);

  test.each([...new Set([...codesOf(platform), ...codesOf(gateway), ...Object.keys(problems)])])(
    "has a row with the id %s",
    (code) => {
      expect(htmlOf("/docs/errors")).toContain(`<tr id="${code}"><td><code>${code}</code></td>`);
    },
  );

  test("has a further id for the gateway's row of a code that the platform has too", () => {
    const shared = codesOf(gateway).filter((code) => codesOf(platform).includes(code));
    expect(shared).toContain("MFA_REQUIRED");
    for (const code of shared) expect(idsOf("/docs/errors")).toContain(`ai-gateway-${code}`);
  });
});

describe("renderGuide", () => {
  const blocksOf = (markdown: string) => renderGuide(markdown, () => null).blocks;

  test("takes the first heading as the title, and separates code from HTML", () => {
    const markdown = "# Title\n\nText.\n\n## Run `it`\n\n```sh needs=client\nls <a>\n```\n\nMore.";
    expect(renderGuide(markdown, () => null)).toEqual({
      id: "title",
      title: "Title",
      sections: [{ id: "run-it", text: "Run it" }],
      blocks: [
        { html: '<p>Text.</p>\n<h2 id="run-it">Run <code>it</code></h2>' },
        { code: "ls <a>", label: "Shell", section: "Run it" },
        { html: "<p>More.</p>\n" },
      ],
    });
  });

  test("shows a link without a target as text, and escapes targets", () => {
    expect(blocksOf("[a & b](../x.ts)")).toEqual([{ html: "<p>a &amp; b</p>\n" }]);
    const [block] = renderGuide("[a](b)", () => 'https://x.test/?a=1&b="<').blocks;
    expect(block).toEqual({
      html: '<p><a class="link" href="https://x.test/?a=1&amp;b=&quot;&lt;">a</a></p>\n',
    });
  });

  test("omits HTML of the Markdown", () => {
    expect(blocksOf("<!-- bench -->\n\na<script>b")).toEqual([{ html: "<p>ab</p>\n" }]);
  });
});
