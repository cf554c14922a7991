import { basicAuthorization } from "../../../remix-app/http/authorization.ts";
import { paths } from "../../test/apps.ts";
import type { Household } from "../traffic/household.ts";
import type { Visitor } from "../traffic/visitor.ts";
import type { World } from "../world.ts";
import type { AccountFact, EndedFact } from "./accounts.ts";
import { query } from "./collect.ts";

/** The maximum number of ended sessions that are checked over HTTP. All ended sessions are checked in the database. */
const mostAsked = 60;

async function livingSessions(world: World, ids: readonly string[]): Promise<Set<string>> {
  const rows = await query<{ id: string }>(world, {
    sql: "select id from auth.sessions where id = any ($1)",
    values: [ids],
  });
  return new Set(rows.map(({ id }) => id));
}

/** Opens every account that wasn't signed out, in its own browser. */
export async function openAccounts(world: World, households: readonly Household[]): Promise<AccountFact[]> {
  const facts: AccountFact[] = [];
  for (const { name: actor, browser, people, standings, sessionIds, reconcile } of households) {
    if (!(await reconcile())) throw new Error(`${actor}: its accounts could not be read after the faults`);
    for (const { id: accountId } of people.filter(({ id }) => standings.get(id) === "held")) {
      const { status, text } = await browser.postJson("/api/v1/auth/accounts/switch", { accountId });
      const session = status === 200 ? await browser.get("/api/v1/auth/session") : null;
      const isIt = session?.status === 200 && JSON.parse(session.text).user.id === accountId;
      const living = await livingSessions(world, [sessionIds.get(accountId) ?? accountId]);
      const answered = isIt ? "200" : `${status} ${(session?.text ?? text).slice(0, 160)}`;
      facts.push({ actor, accountId, opened: isIt, answered, sessionLives: living.size > 0 });
    }
  }
  return facts;
}

/** Checks whether ended sessions still work: in the database, with their own tokens, and by introspection. */
export async function probeEnded(
  world: World,
  { households, visitors }: { households: readonly Household[]; visitors: readonly Visitor[] },
): Promise<EndedFact[]> {
  const ended = households.flatMap(({ ended: sessions }) => sessions);
  const living = await livingSessions(
    world,
    ended.map(({ sessionId }) => sessionId),
  );
  const facts: EndedFact[] = ended.map(({ actor, sessionId }) => ({
    actor,
    what: `session ${sessionId}`,
    alive: living.has(sessionId),
    how: "its user signed out",
  }));
  for (const { actor, accessToken, sessionId } of ended.filter((one) => one.accessToken).slice(-mostAsked)) {
    const { status } = await fetch(new URL("/api/v1/auth/session", world.stack.base), {
      headers: { authorization: `Bearer ${accessToken}` },
    });
    facts.push({ actor, what: `token of ${sessionId}`, alive: status === 200, how: "its user signed out" });
  }
  const appSessions = visitors.flatMap(({ name, ended: tokens }) => tokens.map((one) => ({ ...one, actor: name })));
  for (const { actor, token, how } of appSessions.slice(-mostAsked)) {
    const response = await fetch(new URL(paths.introspect, world.stack.base), {
      method: "POST",
      headers: { authorization: basicAuthorization(world.satellite), "content-type": "application/json" },
      body: JSON.stringify({ token }),
    });
    const { active } = (await response.json()) as { active?: boolean };
    facts.push({ actor, what: `app session ${token.slice(0, 16)}…`, alive: active !== false, how });
  }
  return facts;
}
