import { randomBytes } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { renderToStaticMarkup } from "react-dom/server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { mailEnv as env, lockOutbox } from "../../scripts/test/mail-env.ts";
import { createPerson, deletePerson, type Person } from "../../scripts/test/people.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { mailOutages } from "../schedule/alert-task.ts";
import { sendDueMails } from "../schedule/send-due-mails.ts";
import { upkeepTask } from "../schedule/upkeep.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { readOutageMails, setOutageMails } from "./outage-mails.ts";
import { OutageMailsForm } from "./outage-mails.tsx";

const { db, close } = openPool(2);
const provider = `p_${randomBytes(6).toString("hex")}`;
const context = { env, requestId: "request-1" } as AppLoadContext;
let admin: Person;
let other: Person;
lockOutbox();
beforeAll(async () => {
  [admin, other] = await Promise.all([createPerson(), createPerson()]);
  await db.query(
    "insert into private.infrastructure_admins (user_id, reason) select id, 'test' from unnest($1::uuid[]) as p (id)",
    [[admin.id, other.id]],
  );
  await db.query(
    "insert into ai.models (id, kind, display_name, owned_by, enabled) values ($1, 'chat', $1, 't', true)",
    [provider],
  );
  await db.query(
    "insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 1, $1, 'm')",
    [provider],
  );
});
afterAll(async () => {
  await db.query("delete from ai.models where id = $1", [provider]);
  await db.query("delete from ai.route_health where provider_id = $1", [provider]);
  await db.query("delete from ai.provider_outages where provider_id = $1", [provider]);
  await Promise.all([admin, other].map(deletePerson));
  await close();
});

/** Posts the fields of the form with this button, as the page renders them. */
async function press(person: Person, label: string): Promise<unknown> {
  const isOn = await readOutageMails(context, person);
  const html = renderToStaticMarkup(OutageMailsForm({ isOn: isOn === true }).props.children);
  expect(html).toContain(label);
  const [, value = ""] = /name="outages" value="(\w+)"/.exec(html) ?? [];
  return post(person, value);
}

const post = (person: Person, outages: string) =>
  setOutageMails(context, {
    request: new Request("http://a.test/admin", { method: "POST", body: new URLSearchParams({ outages }) }),
    admin: person,
  }).catch((answer: unknown) => answer);

const soon = () => AbortSignal.timeout(20_000);

/** Records and mails outages on several servers, and sends what is due. Returns the emails to a person. */
async function subjectsTo(person: Person): Promise<(string | undefined)[]> {
  await upkeepTask(env, "record-provider-outages").run(soon());
  await callAtOnce(() => mailOutages(env).run(soon()));
  const left = async () => {
    await sendDueMails(env).run(soon());
    return db.query("select from private.outgoing_mails where recipient = $1", [person.email]);
  };
  await expect.poll(left, { timeout: 10_000 }).toEqual([]);
  const mails = await mailsTo(person.email);
  return mails.map(({ subject }) => subject).filter((subject) => subject?.startsWith(provider));
}

test("an admin gets one email when a provider fails and one when it works again, unless they turn them off", async () => {
  expect(await press(other, "Stop these emails")).toMatchObject({ status: 303 });
  await db.query(
    `insert into ai.route_health (
       provider_id, provider_model, endpoint, failing_since, failures_in_row, failure, status, failed_at, skipped_until
     ) values ($1, 'm', 'chat', now() - interval '90 seconds', 4, 'server_error', 503, now(), now() + interval '1 minute')`,
    [provider],
  );
  // The stack's own server may be recording outages at this moment.
  await expect.poll(() => subjectsTo(admin), { timeout: 20_000 }).toEqual([`${provider} is failing`]);
  await db.query(
    `update ai.route_health set failing_since = null, failures_in_row = 0, answered_at = now(), skipped_until = null
     where provider_id = $1`,
    [provider],
  );
  await db.query("update ai.provider_outages set failing_at = now() - interval '2 minutes' where provider_id = $1", [
    provider,
  ]);
  await expect
    .poll(() => subjectsTo(admin), { timeout: 20_000 })
    .toEqual([`${provider} is failing`, `${provider} works again`]);
  expect(await subjectsTo(other)).toEqual([]);
});

test("the form turns the emails on and off for its person only, and refuses others", async () => {
  expect(await readOutageMails(context, admin)).toBe(true);
  expect(await press(other, "Email me about outages")).toMatchObject({ status: 303 });
  expect(await post(other, "on")).toMatchObject({ status: 303 });
  expect(await readOutageMails(context, other)).toBe(true);
  expect(await press(other, "Stop these emails")).toMatchObject({ status: 303 });
  expect([await readOutageMails(context, admin), await readOutageMails(context, other)]).toEqual([true, false]);
  expect(await post(other, "maybe")).toMatchObject({ status: 400 });
  await db.query("delete from private.infrastructure_admins where user_id = $1", [other.id]);
  expect(await post(other, "on")).toMatchObject({ status: 403 });
  expect(await readOutageMails({ ...context, env: { ...env, SMTP_URL: undefined } }, admin)).toBeNull();
});
