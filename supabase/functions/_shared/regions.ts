/** Where a provider processes calls, by the code that settings and policies use. */
export const regionNames = {
  eu: "European Union and EEA",
  ch: "Switzerland",
  uk: "United Kingdom",
  us: "United States",
  ca: "Canada",
  br: "Brazil",
  ae: "United Arab Emirates",
  in: "India",
  sg: "Singapore",
  kr: "South Korea",
  jp: "Japan",
  au: "Australia",
  cn: "China",
} as const;

export type Region = keyof typeof regionNames;

/** The codes of all regions. Two regions never overlap, so no code includes another. */
export const regions = Object.keys(regionNames) as [Region, ...Region[]];

/** Returns a region's name, or its code if a later release added the region. */
export function nameRegion(code: string): string {
  return new Map<string, string>(Object.entries(regionNames)).get(code) ?? code;
}
