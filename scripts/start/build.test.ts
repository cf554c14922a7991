import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { hashSources } from "./build.ts";
import { serveTemplates } from "./templates.ts";

test("a build is outdated after a source file changes, but not after a test changes", async () => {
  const root = mkdtempSync(path.join(tmpdir(), "gatehouse-build-"));
  mkdirSync(path.join(root, "remix-app/routes"), { recursive: true });
  const write = (file: string, text: string) => writeFileSync(path.join(root, "remix-app", file), text);
  write("root.tsx", "1");
  const first = await hashSources(root);
  write("root.test.tsx", "1");
  expect(await hashSources(root)).toBe(first);
  write("routes/home.tsx", "1");
  const second = await hashSources(root);
  expect(second).not.toBe(first);
  write("root.tsx", "2");
  expect(await hashSources(root)).not.toBe(second);
  rmSync(root, { recursive: true });
});

test("the template server serves email templates by name, and nothing else", async () => {
  const { url, close } = await serveTemplates([{ file: "confirmation", subject: "S", html: "<p>Confirm</p>" }]);
  const confirmation = await fetch(`${url}/confirmation.html`);
  expect(confirmation.status).toBe(200);
  expect(await confirmation.text()).toBe("<p>Confirm</p>");
  for (const path of ["/", "/none.html", "/..%2fseed.sql", "/../seed.sql"]) {
    expect((await fetch(url + path)).status, path).toBe(404);
  }
  close();
});
