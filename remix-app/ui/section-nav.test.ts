import { expect, test } from "vitest";
import { currentSection, shortCount } from "./section-nav.tsx";

const sections = [
  { to: "/workspaces/1", label: "Overview" },
  { to: "/workspaces/1/ai", label: "Usage" },
  { to: "/workspaces/1/ai/runs", label: "Runs" },
  { to: "/workspaces/1/ai/costs", label: "Costs", also: "/workspaces/1/imports" },
];

test.each([
  ["/workspaces/1", "Overview"],
  ["/workspaces/1/somewhere-else", "Overview"],
  ["/workspaces/1/ai", "Usage"],
  ["/workspaces/1/ai/runs", "Runs"],
  ["/workspaces/1/ai/runs/42", "Runs"],
  ["/workspaces/1/ai/runs-of-last-year", "Usage"],
  ["/workspaces/1/imports/42", "Costs"],
  ["/workspaces/12", undefined],
  ["/", undefined],
])("the path %s belongs to the section %s", (pathname, label) => {
  expect(currentSection(sections, pathname)?.label).toBe(label);
});

test.each([
  [1, "1"],
  [99, "99"],
  [100, "99+"],
  [1_001, "99+"],
])("the menu shows a section's count of %i as %s", (count, shown) => {
  expect(shortCount(count)).toBe(shown);
});
