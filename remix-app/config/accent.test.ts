import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { accentFault, accentSchemes, contrastOf, darkContrast, hexOfOklch } from "./accent.ts";
import { defaultAccent } from "./brand.ts";

const steps = [0, 51, 102, 153, 204, 255];
const hexOf = (...channels: number[]) => `#${channels.map((each) => each.toString(16).padStart(2, "0")).join("")}`;
const colours = steps.flatMap((r) => steps.flatMap((g) => steps.map((b) => hexOf(r, g, b))));

test("computes contrast as WCAG 2.2 defines it", () => {
  expect(contrastOf("#000000", "#ffffff")).toBeCloseTo(21, 5);
  expect(contrastOf("#ffffff", "#767676")).toBeCloseTo(4.54, 2);
});

test("accepts a colour with a contrast of at least 4.5:1 on every light background", () => {
  expect(accentFault("#6e6e6e")).toBeUndefined();
  expect(accentFault("#6f6f6f")).toContain("#6f6f6f is too light");
});

test("accepts the shade that the check suggests for a light colour", () => {
  for (const colour of colours) {
    const offered = accentFault(colour)?.match(/(#[0-9a-f]{6}) works$/)?.[1];
    if (offered) expect(accentFault(offered), `${offered} for ${colour}`).toBeUndefined();
  }
});

test("every colour yields a shade that is readable on dark backgrounds, and a text colour that is readable on that shade", () => {
  const unreadable = colours.filter((colour) => darkContrast(colour) < 4.5);
  expect(unreadable).toEqual([]);
});

test("white text stays readable on every accepted colour in the light scheme", () => {
  for (const colour of colours.filter((each) => !accentFault(each))) {
    const { accent, strong, on } = accentSchemes(colour).light;
    expect(contrastOf(accent, on)).toBeGreaterThanOrEqual(4.5);
    expect(contrastOf(strong, on)).toBeGreaterThanOrEqual(4.5);
  }
});

test("uses the stylesheet's accent as the default", () => {
  const styles = readFileSync("remix-app/ui/styles.css", "utf8");
  const [, l, c, h] = /--color-accent: light-dark\(oklch\(([\d.]+) ([\d.]+) ([\d.]+)\)/.exec(styles) ?? [];
  expect(hexOfOklch({ l: Number(l), c: Number(c), h: Number(h) })).toBe(defaultAccent);
});
