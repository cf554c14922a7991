import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import {
  afterStackServer,
  mailEnvDown as down,
  mailEnv as env,
  lockOutbox,
  whileOthersWait,
} from "../../scripts/test/mail-env.ts";
import { sendDueMails } from "../schedule/send-due-mails.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { sendMail } from "./send-mail.ts";

const outbox = () => createServiceClient(env).schema("private").from("outgoing_mails");
let to: string;

lockOutbox();
beforeEach(() => {
  to = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
});
afterEach(async () => {
  vi.restoreAllMocks();
  await outbox().delete().eq("recipient", to);
});

async function kept() {
  const { data } = await outbox().select("id, attempts, subject").eq("recipient", to);
  return data ?? [];
}
const runResend = (given = env) => sendDueMails(given).run(AbortSignal.timeout(10_000));
async function makeDue(): Promise<void> {
  await afterStackServer();
  await outbox()
    .update({ next_attempt_at: new Date(0).toISOString() })
    .eq("recipient", to);
}

test("sends an email as text and as HTML, and then deletes it", async () => {
  await sendMail(env, { to, subject: "Something changed", text: `First.\n\nSecond: ${env.BASE_URL}/x` });
  await expect.poll(() => mailsTo(to)).toHaveLength(1);
  const [received] = await mailsTo(to);
  expect(received).toMatchObject({ subject: "Something changed", text: expect.stringContaining("First.\n\nSecond") });
  expect(received?.html).toContain(`href="${env.BASE_URL}/x"`);
  await expect.poll(kept).toEqual([]);
});

test("sends no email to an address that is a list of addresses", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const other = `other-${to}`;
  await sendMail(env, { to: `${to}, ${other}`, subject: "S", text: "T" });
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect([await mailsTo(to), await mailsTo(other)]).toEqual([[], []]);
  await outbox().delete().eq("recipient", `${to}, ${other}`);
});

test("sends the emails that it has claimed if the server is stopping", async () => {
  await outbox().insert({ recipient: to, subject: "Claimed", body: "T" });
  await makeDue();
  const stopping = new AbortController();
  const sent = sendDueMails(env).run(stopping.signal);
  stopping.abort();
  await sent;
  await expect.poll(() => mailsTo(to)).toHaveLength(1);
  expect(await kept()).toEqual([]);
});

test("doesn't fail while the mail server is down, and sends the email only once after it is back", async () => {
  const said = vi.spyOn(console, "error").mockImplementation(() => {});
  await sendMail(down, { to, subject: "Later", text: "T" });
  await expect.poll(() => said.mock.calls.join()).toMatch(/was not sent, and is tried again: ESOCKET|ECONNECTION/);
  expect(said.mock.calls.join()).not.toContain(to);
  expect(await kept()).toMatchObject([{ attempts: 1 }]);

  await makeDue();
  await whileOthersWait(to, () => runResend(down));
  expect(await kept()).toMatchObject([{ attempts: 2 }]);
  await runResend();
  expect(await mailsTo(to)).toEqual([]);

  await makeDue();
  await callAtOnce(() => runResend());
  await expect.poll(() => mailsTo(to)).toHaveLength(1);
  await expect.poll(kept).toEqual([]);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(await mailsTo(to)).toHaveLength(1);
});

test("sends all due emails in one run, even several batches", async () => {
  const due = { recipient: to, subject: "One of many", body: "T", next_attempt_at: new Date(0).toISOString() };
  await outbox().insert(Array.from({ length: 25 }, () => due));
  await runResend();
  await expect.poll(() => mailsTo(to), { timeout: 10_000 }).toHaveLength(25);
  await expect.poll(kept).toEqual([]);
});

test("logs an error if no mail server is configured, and keeps no email", async () => {
  const said = vi.spyOn(console, "error").mockImplementation(() => {});
  await sendMail({ ...env, SMTP_URL: undefined }, { to, subject: "Never", text: "T" });
  expect(said.mock.calls.join()).toContain("SMTP_URL is not set");
  expect(await kept()).toEqual([]);
});
