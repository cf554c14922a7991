import { z } from "zod";

/** What the overview can be by, one at a time. */
export const overviewDimensions = ["day", "model", "feature", "key", "app"] as const;
export type OverviewDimension = (typeof overviewDimensions)[number];

export const dimensionLabels: Record<OverviewDimension, string> = {
  day: "Day",
  model: "Model",
  feature: "Feature",
  key: "Key",
  app: "App",
};

const asked = z.enum(overviewDimensions).catch("day");

/** Reads the dimension off an address; days without one. */
export function readDimension(url: URL): OverviewDimension {
  return asked.parse(url.searchParams.get("by"));
}
