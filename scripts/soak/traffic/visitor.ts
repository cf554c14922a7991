import { basicAuthorization } from "../../../remix-app/http/authorization.ts";
import { paths } from "../../test/apps.ts";
import type { Person } from "../../test/people.ts";
import { NoAnswer, watch } from "../journal.ts";
import type { Random } from "../random.ts";
import type { Actor, Stage } from "./actor.ts";
import { addressFrom, openWatchedBrowser } from "./watched-browser.ts";

/** An app session that has certainly ended: its app revoked the session, or its user signed out on the web. */
export type EndedAppSession = { token: string; how: string };

export interface Visitor extends Actor {
  ended: readonly EndedAppSession[];
}

type Introspected = { active: boolean; sub?: string };
type Redeemed = { userId: string; appSession: { token: string } } | null;

/** Creates a visitor who signs in to the platform, enters satellites with cross-app tokens, and signs out again. */
export function createVisitor(
  stage: Stage,
  { name, person, random }: { name: string; person: Person; random: Random },
): Visitor {
  const { journal, world } = stage;
  const { base, satellites } = world.stack;
  const notes = satellites.find((one) => one.name === "notes");
  const address = addressFrom(random);
  const ended: EndedAppSession[] = [];
  const openWeb = () => openWatchedBrowser(journal, { actor: name, base, target: "web", address });

  async function asApp(path: string, body: object): Promise<{ status: number; body: unknown }> {
    return watch(
      journal,
      { actor: name, what: `POST ${path}`, target: "web" },
      {
        call: async () => {
          const response = await fetch(new URL(path, base), {
            method: "POST",
            headers: {
              authorization: basicAuthorization(world.satellite),
              "content-type": "application/json",
              "x-forwarded-for": address,
            },
            body: JSON.stringify(body),
          });
          const text = await response.text();
          return { status: response.status, body: text === "" ? null : (JSON.parse(text) as unknown) };
        },
        seen: ({ status, body: told }) => ({ status, code: (told as { code?: string } | null)?.code ?? null }),
      },
    );
  }

  async function mint(web: ReturnType<typeof openWeb>, targetApp: string): Promise<string | null> {
    const { status, text } = await web.postJson(paths.mint, { targetApp });
    return status === 201 ? (JSON.parse(text) as { token: string }).token : null;
  }

  /** Signs in to the satellite that runs next to the platform, reads a page and signs out. */
  async function visitNotes(web: ReturnType<typeof openWeb>): Promise<void> {
    if (!notes) return;
    const token = await mint(web, "notes");
    if (!token) return;
    const there = openWatchedBrowser(journal, { actor: name, base: notes.url, target: "notes", address });
    const verified = await there.postJson("/api/auth/verify-app-token", { token });
    if (verified.status !== 200) return;
    journal.count("satellite sign-ins");
    const again = await there.postJson("/api/auth/verify-app-token", { token });
    if (again.status === 200) journal.find(name, "a cross-app token was taken twice by the satellite");
    const home = await there.get("/");
    if (home.status === 200 && !home.text.includes(person.email))
      journal.find(name, "the satellite does not know who came");
    const out = await there.post("/sign-out", {});
    if (out.status < 400 && (await there.get("/")).text.includes(person.email)) {
      journal.find(name, "the satellite knows who signed out");
    }
  }

  async function introspect(token: string): Promise<Introspected | null> {
    const { status, body } = await asApp(paths.introspect, { token });
    return status === 200 ? (body as Introspected) : null;
  }

  /**
   * Redeems a cross-app token for an app session and introspects the session, as an app's server does. May also refresh
   * or revoke the session.
   * @returns the token of a session that is expected to stay active until the person signs out, or null
   */
  async function spendAppSession(web: ReturnType<typeof openWeb>): Promise<string | null> {
    const handed = await mint(web, world.satellite.name);
    if (!handed) return null;
    const redeemed = await asApp(paths.validate, { token: handed });
    const held = redeemed.body as Redeemed;
    if (redeemed.status !== 200 || !held) {
      if (redeemed.status === 200) journal.find(name, "a fresh cross-app token led nowhere");
      return null;
    }
    const twice = await asApp(paths.validate, { token: handed });
    if (twice.status === 200 && twice.body !== null) journal.find(name, "a cross-app token was redeemed twice");
    journal.count("app sessions");
    let { token } = held.appSession;
    const known = await introspect(token);
    if (known && (!known.active || known.sub !== person.id))
      journal.find(name, "a fresh app session is not its user's");
    if (random.chance(0.6)) {
      const refreshed = await asApp(paths.refresh, { token });
      if (refreshed.status >= 500) return null;
      if (refreshed.status !== 200) journal.find(name, `a live app session was not refreshed: ${refreshed.status}`);
      else ({ token } = refreshed.body as { token: string });
    }
    if (random.chance(0.5)) return token;
    const revoked = await asApp(paths.revoke, { token });
    if (revoked.status < 300) ended.push({ token, how: "revoked by its app" });
    return null;
  }

  async function act(): Promise<void> {
    const web = openWeb();
    const signedIn = await web.post("/login", { email: person.email, password: person.password, returnUrl: "" });
    if (signedIn.status === 429) journal.count("visitors turned away");
    if (signedIn.status >= 400) return;
    const open: string[] = [];
    const visits = 1 + random.below(3);
    for (let n = 0; n < visits; n += 1) {
      try {
        if (random.chance(0.5)) await visitNotes(web);
        else {
          const token = await spendAppSession(web);
          if (token) open.push(token);
        }
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
      }
    }
    const out = await web.postJson("/api/v1/auth/accounts/logout-all", {});
    if (out.status !== 200) return;
    ended.push(...open.map((token) => ({ token, how: "its user signed out on the web" })));
    for (const token of open) {
      if ((await introspect(token))?.active)
        journal.find(name, "an app session is alive after the sign-out on the web");
    }
  }

  // The pauses keep the visitor below the limit of 120 app sign-ins per account in ten minutes. Too many attempts after
  // a refusal would block the visitor's IP address.
  return { name, random, act, pauseMs: [9_000, 17_000], ended };
}
