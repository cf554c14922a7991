import type { Browser, BrowserContext } from "playwright";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import type { Account, World } from "./world.ts";

/**
 * The account that opens a page. `anonymous` and `guest` (a new account without data) get a new browser for each state,
 * so that states do not affect each other. The other visitors keep their browsers: `user` owns the workspaces, `member`
 * has the longest names and the narrowest role, `admin` and `finance` have completed the second step, and `owing` must
 * still complete it.
 */
export type Visitor = "anonymous" | "guest" | "user" | "member" | "admin" | "finance" | "owing";

/**
 * How long a session is reused. Must be less than ten minutes, because some pages require a sign-in within the last ten
 * minutes.
 */
const signedInMs = 5 * 60_000;

interface Place {
  context: BrowserContext;
  person: Account | null;
  /** Closes the browser context if only this state uses it. */
  leave(): Promise<void>;
}

/** Returns a function that opens a visitor's browser in the sign-in state that {@link Visitor} describes. */
export function createVisitors(browser: Browser, world: World) {
  const kept = new Map<Visitor, { place: Promise<Place>; since: number }>();
  const open = async (person: Account | null, cookie: string): Promise<BrowserContext> => {
    const headers = { "X-Forwarded-For": newAddress() };
    const context = await browser.newContext({ baseURL: world.base, extraHTTPHeaders: headers, locale: "en-US" });
    if (person) await context.addCookies(cookiesOf(cookie, world.base));
    return context;
  };
  const visit = async (person: Account): Promise<Place> => ({
    context: await open(person, await world.signIn(person)),
    person,
    leave: async () => {},
  });
  const ownPlace = async (person: Account | null): Promise<Place> => {
    const context = await open(person, person ? await world.signIn(person) : "");
    return { context, person, leave: () => context.close() };
  };
  return async (visitor: Visitor): Promise<Place> => {
    if (visitor === "anonymous") return ownPlace(null);
    if (visitor === "guest") return ownPlace(await world.createAccount());
    const known = kept.get(visitor);
    if (known && Date.now() - known.since < signedInMs) return known.place;
    const place = visit(world.people[visitor]);
    kept.set(visitor, { place, since: Date.now() });
    return place;
  };
}

/** Parses a Cookie header into cookies for a browser at the given origin. */
export function cookiesOf(header: string, url: string) {
  return header
    .split("; ")
    .filter(Boolean)
    .map((pair) => ({ name: pair.slice(0, pair.indexOf("=")), value: pair.slice(pair.indexOf("=") + 1), url }));
}
