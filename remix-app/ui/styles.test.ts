import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { contrastOf, hexOfOklch } from "../config/accent.ts";

const styles = readFileSync(new URL("styles.css", import.meta.url), "utf8");

/** Returns a token's color in one of the schemes, as `#rrggbb`. */
function colorOf(token: string, scheme: "light" | "dark"): string {
  const [, given = ""] = new RegExp(`--color-${token}: light-dark\\((.*)\\);`).exec(styles) ?? [];
  const pair = [...given.matchAll(/oklch\(([\d.]+) ([\d.]+) ([\d.]+)\)/g)];
  const [l, c, h] = (pair[scheme === "light" ? 0 : 1] ?? []).slice(1).map(Number);
  if (l === undefined || c === undefined || h === undefined) throw new Error(`styles.css has no color ${token}.`);
  return hexOfOklch({ l, c, h });
}

const grounds = ["canvas", "surface", "raised", "sunken"];

// The browser tests scan pages in the light scheme only. WCAG 2.2, success criterion 1.4.3.
test.for(
  (["light", "dark"] as const).flatMap((scheme) => [
    ...["ink", "muted", "accent", "good", "warn", "bad"].map((text) => [scheme, text, grounds] as const),
    ...["accent", "good", "warn", "bad"].flatMap((tone) =>
      [tone, "ink"].map((text) => [scheme, text, [`${tone}-soft`]] as const),
    ),
    [scheme, "on-accent", ["accent", "accent-strong"]] as const,
  ]),
)("in the %s scheme, %s text on %s has a contrast of at least 4.5", ([scheme, text, on]) => {
  for (const ground of on) {
    expect(contrastOf(colorOf(text, scheme), colorOf(ground, scheme)), ground).toBeGreaterThanOrEqual(4.5);
  }
});
