import { setTimeout as sleep } from "node:timers/promises";
import { refreshMarginSeconds } from "../../../remix-app/session/refresh.ts";
import { accessTokenOf } from "../../../remix-app/testing/browser.ts";
import { visitorHeaders } from "../../../remix-app/testing/visitor.ts";
import type { Person } from "../../test/people.ts";
import { NoAnswer, watch } from "../journal.ts";
import type { Random } from "../random.ts";
import type { Actor, Stage } from "./actor.ts";
import { addressFrom, openWatchedBrowser, type WatchedBrowser } from "./watched-browser.ts";

/** A concurrent refresh of one session by two web servers. The outcome is `doubtful` if an answer did not arrive. */
export type RefreshRace = {
  actor: string;
  at: number;
  renewedBy: number;
  outcome: "kept" | "lost" | "doubtful";
  detail: string;
};
/** An account switch that was begun on one server and finished on another. */
export type MovedSwitch = { actor: string; at: number; outcome: "arrived" | "lost" | "doubtful"; detail: string };

export interface Commuter extends Actor {
  races: readonly RefreshRace[];
  moves: readonly MovedSwitch[];
}

const sessionPath = "/api/v1/auth/session";
const switchPath = "/api/v1/auth/accounts/switch";
/** Shortest and longest time from the start of an account switch on the first server until the browser disconnects. */
const leaveAfterMs = [1, 60] as const;
/** Time between two account switches, long enough for the session to come close to its expiry and be refreshed. */
const quietMs = 25_000;
/** The longest time a web server works on a request, with some slack for a busy machine. */
const longestRequestMs = 15_000;

type Held = { userId: string; sessionId: string };

/** Creates a browser whose requests go to two web servers, sometimes alternately and sometimes concurrently. */
export function createCommuter(
  stage: Stage,
  {
    name,
    people,
    random,
    servers,
  }: { name: string; people: [Person, Person]; random: Random; servers: () => string[] },
): Commuter {
  const { journal } = stage;
  const address = addressFrom(random);
  const races: RefreshRace[] = [];
  const moves: MovedSwitch[] = [];
  let cookie = "";
  /** The active account. Null until both people are signed in to this browser. */
  let active: Held | null = null;
  let quietUntil = 0;
  /** Until this time, a server may still be working on an abandoned switch, so the active account is unknown. */
  let unsureUntil = 0;

  const openOn = (base: string, held = cookie) =>
    openWatchedBrowser(journal, { actor: name, base, target: "web", address, cookie: held });
  const pair = () => random.shuffled(servers()) as [string, string];

  /** @returns null if no answer showed whether there is a session */
  async function sessionOf(browser: WatchedBrowser): Promise<Held | "none" | null> {
    try {
      const { status, text } = await browser.get(sessionPath);
      if (status === 401) return "none";
      if (status !== 200) return null;
      const { user, sessionId } = JSON.parse(text) as { user: { id: string }; sessionId: string };
      return { userId: user.id, sessionId };
    } catch (error) {
      if (error instanceof NoAnswer) return null;
      throw error;
    }
  }

  async function signIn(): Promise<void> {
    const [base] = pair();
    const browser = openOn(base, "");
    for (const [index, { email, password }] of people.entries()) {
      const { status } = await browser.post(index === 0 ? "/login" : "/add-account", {
        email,
        password,
        returnUrl: "",
      });
      if (status >= 400) return;
    }
    const held = await sessionOf(browser);
    if (held === null || held === "none") return;
    cookie = browser.cookie();
    active = held;
  }

  async function race(before: Held): Promise<void> {
    const bases = pair();
    const token = accessTokenOf({ cookie: () => cookie });
    const browsers = bases.map((base) => openOn(base));
    const seen = await Promise.all(browsers.map(sessionOf));
    const renewed = browsers.filter((browser) => hasToken(browser) && accessTokenOf(browser) !== token);
    // In a browser, the answer that arrives last sets the cookies. The order is random.
    const [kept = browsers[0], other = browsers[1]] = random.shuffled(browsers);
    const [, elsewhere] = random.shuffled(bases);
    const note = (outcome: RefreshRace["outcome"], detail: string) =>
      races.push({ actor: name, at: Date.now(), renewedBy: renewed.length, outcome, detail });
    const after = kept && elsewhere ? await sessionOf(openOn(elsewhere, kept.cookie())) : null;
    const lost = [...seen, after].find((one) => one === "none" || (one !== null && !isSame(one, before)));
    if (lost) {
      note("lost", lost === "none" ? "the session has ended" : `it acts as ${lost.userId}`);
      forget();
    } else if (seen.includes(null) || after === null) {
      note("doubtful", "a server did not answer");
      cookie = (renewed[0] ?? other ?? kept)?.cookie() ?? cookie;
    } else {
      note("kept", "");
      cookie = kept?.cookie() ?? cookie;
    }
  }

  async function move(from: Held): Promise<void> {
    const [first, second] = pair();
    const to = people.find(({ id }) => id !== from.userId);
    if (!to) return;
    active = null;
    quietUntil = Date.now() + quietMs;
    unsureUntil = Date.now() + longestRequestMs;
    await startAndLeave(first, to.id);
    const note = (outcome: MovedSwitch["outcome"], detail: string) =>
      moves.push({ actor: name, at: Date.now(), outcome, detail });
    const browser = openOn(second);
    const { status, text } = await browser.postJson(switchPath, { accountId: to.id });
    if (status >= 500) return void note("doubtful", `the second server answered ${status}`);
    if (status !== 200) {
      note("lost", `the second server answered ${status}: ${text.slice(0, 200)}`);
      return forget();
    }
    cookie = browser.cookie();
    const [there, here] = await Promise.all([sessionOf(openOn(first)), sessionOf(browser)]);
    for (const one of [there, here]) {
      if (one === null) continue;
      if (one === "none" || one.userId !== to.id) {
        note("lost", one === "none" ? "there is no session after it" : `it acts as ${one.userId} after it`);
        return forget();
      }
    }
    active = here === "none" ? null : (here ?? null);
    if (there === null || here === null) return void note("doubtful", "a server did not answer after it");
    cookie = browser.cookie();
    note("arrived", "");
  }

  /** Sends a switch and disconnects while the server is working on it. */
  async function startAndLeave(base: string, accountId: string): Promise<void> {
    const leaving = new AbortController();
    const described = { actor: name, what: `POST ${switchPath}`, target: "web" } as const;
    const sent = watch(journal, described, {
      call: () =>
        fetch(new URL(switchPath, base), {
          method: "POST",
          headers: { ...visitorHeaders(address), cookie, "content-type": "application/json" },
          body: JSON.stringify({ accountId }),
          signal: leaving.signal,
        }),
      seen: ({ status }) => ({ status }),
      left: () => leaving.signal.aborted,
    }).catch((error: unknown) => {
      if (!(error instanceof NoAnswer)) throw error;
    });
    await sleep(random.between(...leaveAfterMs));
    leaving.abort();
    await sent;
  }

  function forget(): void {
    cookie = "";
    active = null;
  }

  async function act(): Promise<void> {
    if (cookie === "") return signIn();
    if (active === null) {
      if (Date.now() < unsureUntil) return;
      const held = await sessionOf(openOn(pair()[0]));
      if (held === "none") {
        journal.find(name, "the session ended, and no request ended it");
        return forget();
      }
      active = held;
      return;
    }
    const { exp } = JSON.parse(atob(accessTokenOf({ cookie: () => cookie }).split(".")[1] ?? "")) as { exp: number };
    if (exp - Date.now() / 1_000 < refreshMarginSeconds) await race(active);
    else if (Date.now() > quietUntil) await move(active);
  }

  return { name, random, act, pauseMs: [300, 900], races, moves };
}

const isSame = (one: Held, other: Held) => one.userId === other.userId && one.sessionId === other.sessionId;

function hasToken({ cookie }: Pick<WatchedBrowser, "cookie">): boolean {
  return cookie().includes("-auth-token=");
}
