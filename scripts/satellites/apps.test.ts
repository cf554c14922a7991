import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { satelliteApps } from "./apps.ts";

const document = readFileSync("docs/satellites.md", "utf8");
const readJson = (file: string) => JSON.parse(readFileSync(file, "utf8"));
const fileOf = (name: string, file: string) => path.join("packages/satellite/examples", name, file);

test.each(
  satelliteApps.flatMap(({ name, documented, isOpenidClient }) =>
    documented.map((file) => [isOpenidClient ? "docs/openid.md" : "docs/satellites.md", name, file] as const),
  ),
)("%s shows %s's %s as the fresh app has it", (guide, name, file) => {
  const lines = readFileSync(fileOf(name, file), "utf8");
  expect(readFileSync(guide, "utf8")).toContain(`needs=satellite\n${lines}\`\`\``);
});

test("docs/mcp.md shows the MCP server that the tests sign in to", () => {
  const example = readFileSync("satellites/mcp/app.ts", "utf8").replace("#satellite/", "@gatehousehq/satellite/");
  expect(readFileSync("docs/mcp.md", "utf8")).toContain(`needs=context\n${example}\`\`\``);
});

test("the React Router app's root has the middleware that docs/satellites.md shows", () => {
  const root = readFileSync(fileOf("react-router", "app/root.tsx"), "utf8");
  for (const line of [
    'import { satellite } from "./satellite.server";',
    "export const middleware = [satellite.middleware];",
  ]) {
    expect(root).toContain(`${line}\n`);
    expect(document).toContain(`${line}\n`);
  }
});

test.each(satelliteApps.map(({ name }) => [name]))(
  "%s's package.json pins its dependencies to exact versions",
  (name) => {
    const { dependencies, devDependencies } = readJson(fileOf(name, "package.json"));
    for (const version of Object.values({ ...dependencies, ...devDependencies }))
      expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  },
);

test.each(["docs/satellites.md", "docs/openid.md"])("%s has fewer than 250 lines", (guide) => {
  expect(readFileSync(guide, "utf8").split("\n").length).toBeLessThan(250);
});

test("the satellite package depends on jose only", () => {
  expect(Object.keys(readJson("packages/satellite/package.json").dependencies)).toEqual(["jose"]);
});
