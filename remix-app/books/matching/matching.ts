import { providerPage } from "../book.ts";

/** How a provider's day can be compared with single calls. */
export type Matching = "hours";

/** The providers that can be asked about a day, and what they are asked for. */
const matchings: ReadonlyMap<string, Matching> = new Map([
  ["openai", "hours"],
  ["anthropic", "hours"],
]);

/** Returns how a provider's days can be compared with single calls, or null if they can't. */
export function matchingOf(provider: string): Matching | null {
  return matchings.get(provider) ?? null;
}

/** Returns the path of the page that finds the calls behind a difference on a provider's UTC day. */
export function dayPage({ provider, day }: { provider: string; day: string }): string {
  return `${providerPage({ month: day.slice(0, 7), provider })}/${day}`;
}
