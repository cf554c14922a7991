import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

const patterns = readFileSync(path.join(import.meta.dirname, "../.dockerignore"), "utf8")
  .trim()
  .split("\n");
/** Patterns of .dockerignore begin at the root, unlike those of .gitignore. */
const isIgnored = (file: string) => patterns.some((pattern) => path.matchesGlob(file, pattern));

test.for([
  ".env",
  ".env.production",
  "production.env",
  "deploy/compose/.env",
  "deploy/compose/providers.env",
  "supabase/functions/.env",
  "satellites/notes/.env.local",
])("images are built without %s, which holds secrets", (file) => {
  expect(isIgnored(file)).toBe(true);
});

test.for(["package.json", "supabase/functions/_shared/environment.ts", "remix-app/config/env.server.ts"])(
  "images are built with %s",
  (file) => {
    expect(isIgnored(file)).toBe(false);
  },
);
