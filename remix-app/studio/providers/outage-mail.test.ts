import { expect, test } from "vitest";
import { type OutageAlert, outageMail } from "./outage-mail.ts";

const outage = {
  id: "a3bb189e-8bf9-3888-9912-ace4e6543002",
  provider: "openai",
  beganAt: "2026-11-30T09:12:04.000Z",
  failure: "server_error",
  status: 503,
  routes: [{ model: "gpt-5", endpoint: "chat" }],
} as const;
const began: OutageAlert = {
  ...outage,
  kind: "began",
  callers: { calls: 4, answeredElsewhere: 1, failed: [{ status: 502, code: "provider_error", calls: 3 }] },
};
const ended: OutageAlert = { ...outage, kind: "ended", endedAt: "2026-11-30T09:44:34.000Z", ending: "answered" };
const site = { origin: "https://gatehouse.example", product: "Gatehouse" };
const footer =
  "-- \nYou’re getting this email because you have a role in the console of Gatehouse. To stop these emails, use the button on its overview.";

test("an email about an outage says since when, which failure and routes, what callers got, and links to the console", () => {
  const { subject, text } = outageMail(began, site);
  expect(subject).toBe("openai is failing");
  expect(text).toBe(
    [
      "Requests to openai are failing.",
      [
        "Since: 30 Nov 2026, 09:12:04 UTC",
        "Last failure: 503 – provider error",
        "Routes: gpt-5 (chat)",
        "Callers: 4 calls: 1 answered by another route, 3 got 502 provider_error",
      ].join("\n"),
      `Open the console:\n${site.origin}/admin`,
      "While a route fails, the gateway tries the model’s next route. You’ll get another email when the outage has ended.",
      footer,
    ].join("\n\n"),
  );
});

test("an email about the end of an outage says from when to when it lasted, and how long", () => {
  const { subject, text } = outageMail(ended, site);
  expect(subject).toBe("openai works again");
  expect(text).toBe(
    [
      "openai answers requests again.",
      [
        "From: 30 Nov 2026, 09:12:04 UTC",
        "To: 30 Nov 2026, 09:44:34 UTC",
        "Duration: 32 min 30 s",
        "Last failure: 503 – provider error",
      ].join("\n"),
      `Open the console:\n${site.origin}/admin`,
      footer,
    ].join("\n\n"),
  );
});

test.for([
  ["quiet", "No request to openai has failed lately. None has been answered since, either."],
  ["disabled", "The routes of openai that failed are disabled."],
] as const)("an email about an outage whose end is %s does not say that the provider works", ([ending, news]) => {
  const { subject, text } = outageMail({ ...ended, ending }, site);
  expect(subject).toBe("openai is no longer failing");
  expect(text.split("\n\n")[0]).toBe(news);
});

test.for([
  [60_000, "1 min"],
  [45_400, "45 s"],
  [3_600_000, "1 h"],
  [11_107_000, "3 h 5 min"],
  [187_200_000, "2 d 4 h"],
  [0, "0 s"],
] as const)("an outage of %i ms lasted %s", ([ms, duration]) => {
  const endedAt = new Date(Date.parse(outage.beganAt) + ms).toISOString();
  expect(outageMail({ ...ended, endedAt }, site).text).toContain(`Duration: ${duration}\n`);
});

test("an email about many failing routes names five of them, none of which becomes a link", () => {
  const routes = Array.from({ length: 7 }, (_, n) => ({ model: `m.${n}.example.com`, endpoint: "embeddings" }));
  const { text } = outageMail({ ...began, routes }, site);
  expect(text.match(/\(embeddings\)/g)).toHaveLength(5);
  expect(text).toContain("(embeddings), and 2 more\n");
  expect(text).not.toContain("example.com");
});

test("an email about an outage whose requests have not ended yet does not count them", () => {
  const callers = { calls: 0, answeredElsewhere: 0, failed: [] };
  expect(outageMail({ ...began, callers }, site).text).toContain(
    "Callers: No ended call has failed there since then.\n",
  );
});
