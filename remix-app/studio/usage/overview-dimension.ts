import { z } from "zod";

/** What the overview can be by, one at a time. */
export const overviewDimensions = ["day", "model", "feature", "key", "app"] as const;
export type OverviewDimension = (typeof overviewDimensions)[number];

/** Reads the dimension off an address; days without one. */
export function readDimension(url: URL): OverviewDimension {
  return z.enum(overviewDimensions).catch("day").parse(url.searchParams.get("by"));
}
