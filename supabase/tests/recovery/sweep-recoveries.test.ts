import { expect } from "vitest";
import { one, test } from "../database.ts";
import { ask, issue, needHelp, override, wrongHash } from "./fixtures.ts";

test("the sweep deletes old recovery credentials, code guesses and expired leases, and keeps overrides and events", async ({
  db,
}) => {
  const people = await needHelp(db);
  const overrideId = await override(db, people);
  const { credentialId } = await issue(db, { ...people, overrideId });
  await ask(db, "consume_recovery_credential", { email: people.email, codeHash: wrongHash });
  await db.query("insert into private.mint_leases (user_id, expires_at) values ($1, now())", [people.userId]);
  const left = async () => {
    await db.asRole("service_role", () => db.query("select private.sweep_recoveries()"));
    return one(db, {
      sql: `select
              (select count(*)::int from private.recovery_credentials where id = $1) as credentials,
              (select count(*)::int from private.recovery_code_guesses where email = $2) as guesses,
              (select count(*)::int from private.mint_leases where user_id = $3) as leases,
              (select count(*)::int from private.recovery_overrides where id = $4) as overrides,
              (select count(*)::int from private.recovery_events where email = $2) as events`,
      values: [credentialId, people.email, people.userId, overrideId],
    });
  };
  const record = { overrides: 1, events: 3 };
  expect(await left()).toEqual({ credentials: 1, guesses: 1, leases: 1, ...record });

  const age = (seconds: number) =>
    db.query(
      `with aged as (
         update private.recovery_credentials
         set created_at = now() - make_interval(secs => $2), expires_at = now() - make_interval(secs => $2)
           + interval '1 second'
         where id = $1
       )
       update private.recovery_code_guesses set last_wrong_at = now() - make_interval(secs => $2) where email = $3`,
      [credentialId, seconds, people.email],
    );
  await db.query("update private.mint_leases set expires_at = now() - interval '1 second' where user_id = $1", [
    people.userId,
  ]);
  await age(24 * 3_600);
  expect(await left()).toEqual({ credentials: 1, guesses: 1, leases: 0, ...record });
  await age(24 * 3_600 + 2);
  expect(await left()).toEqual({ credentials: 0, guesses: 0, leases: 0, ...record });
});
