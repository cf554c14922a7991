import { describe, expect, test } from "vitest";
import { renderFault } from "./blocks.ts";
import { linkFaults, nameFaults, npmFaults, pathFaults } from "./references.ts";
import { readSections, schemaNames, unknownSettings, unwrittenSettings } from "./settings.ts";

const surroundings = { scripts: ["start", "dev"], topLevel: ["scripts", "docs", "package.json"] };

test("npmFaults reports an npm script that package.json lacks, even if only a code block names it", () => {
  const text = "`npm start`, `npm run dev -- --x`\n```sh\nnpm ci && npm run deploy:all\nnpm test\n```\n";
  expect(npmFaults("a.md", text, surroundings).map(renderFault)).toEqual([
    "a.md:3: package.json has no script “deploy:all”",
    "a.md:4: package.json has no script “test”",
  ]);
});

test("linkFaults reports missing files and headings, and ignores links to other hosts and links in code blocks", () => {
  const text =
    "[a](settings.md) [b](https://example.com/x) [c](nowhere.md)\n[d](settings.md#web-server) [e](#none)\n```\n[f](gone.md)\n```";
  const faults = linkFaults("docs/a.md", text, () => "# A\n\n## Web server\n");
  expect(faults.map(renderFault)).toEqual([
    "docs/a.md:1: links to docs/nowhere.md, which is not there",
    "docs/a.md:2: links to docs/a.md, which is not there",
  ]);
});

test("linkFaults resolves links to headings of the same document", () => {
  const read = () => "# A\n\n## What is this? — `GET /v1/key`\n";
  const text = "[a](#what-is-this--get-v1key) [b](#what-is-that)";
  expect(linkFaults("docs/settings.md", text, read).map(renderFault)).toEqual([
    "docs/settings.md:1: links to #what-is-that, which is no heading of docs/settings.md",
  ]);
});

test("pathFaults reports missing repository paths, and accepts patterns", () => {
  const text =
    "`scripts/docs/references.ts` `scripts/nothing.ts` `/docs/api` `a/b` `scripts/docs/*.ts`\n`scripts/<what>.sql` `scripts/docs/`";
  expect(pathFaults("a.md", text, surroundings).map(renderFault)).toEqual([
    "a.md:1: names scripts/nothing.ts, which is not there",
    "a.md:2: names scripts/*.sql, which is not there",
  ]);
});

test("nameFaults reports files, folders, SQL names and identifiers that the code does not have", () => {
  const code = {
    files: ["remix-app/session/user.ts", "supabase/schemas/mfa/rule.sql"],
    words: new Set(["getUser", "runs"]),
  };
  const text =
    "`user.ts` `mfa/rule.sql` `session/` `getUser()` `ai.runs` `.local/ask.ts` `word` `HTTP`\n" +
    "`ser.ts` `sessions/` `fetchUser()` `FetchUser`\n```sh\n`gone.ts`\n```\n`ai.settle(ai.runs)`";
  expect(nameFaults("a.md", text, code).map(renderFault)).toEqual([
    "a.md:2: names ser.ts, which the code does not have",
    "a.md:2: names sessions/, which the code does not have",
    "a.md:2: names fetchUser, which the code does not have",
    "a.md:2: names FetchUser, which the code does not have",
    "a.md:6: names ai.settle, which the code does not have",
  ]);
});

describe("settings that a document names", () => {
  const markdown =
    "## Web — `a.ts`\n\n| name | for | else |\n|---|---|---|\n| `BASE_URL`, `PORT` | x | `OLD_NAME` |\n| `AI_PROVIDER_<ID>_KEY` | x | |\n";
  const sections = readSections(markdown);

  test("reads the settings that a document names, with their line numbers", () => {
    expect(sections).toEqual([
      {
        heading: "Web — `a.ts`",
        names: [
          { name: "BASE_URL", line: 5 },
          { name: "PORT", line: 5 },
          { name: "AI_PROVIDER_<ID>_KEY", line: 6 },
        ],
        mentions: ["BASE_URL", "PORT", "OLD_NAME", "AI_PROVIDER_<ID>_KEY"],
      },
    ]);
  });

  test("reports the whole name of a documented setting that the code does not read", () => {
    const [section] = sections;
    if (!section) throw new Error("no section");
    expect(unknownSettings("s.md", section, "BASE_URL PORT AI_PROVIDER_ + id + _KEY")).toEqual([]);
    expect(unknownSettings("s.md", section, "BASE_URL_2 PORT AI_PROVIDER_").map(renderFault)).toEqual([
      "s.md:5: BASE_URL is in no code of its section",
      "s.md:6: AI_PROVIDER_<ID>_KEY is in no code of its section",
    ]);
  });

  test("reports a setting that the code reads but the document does not name", () => {
    const names = schemaNames(
      "z.object({\n  BASE_URL: origin,\n  PORT: z.coerce.number(),\n  OLD_NAME: z\n    .string(),\n  NEW_NAME: z.string(),\n})",
    );
    expect(names).toEqual(["BASE_URL", "PORT", "OLD_NAME", "NEW_NAME"]);
    expect(unwrittenSettings("s.md", sections, names).map(renderFault)).toEqual([
      "s.md:1: does not name NEW_NAME, which the code takes",
    ]);
  });
});
