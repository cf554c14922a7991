import type { supabaseAuthRoutes } from "@gatehousehq/local-stack/services/identity/supabase-auth-routes";
import type { DirectCall } from "./journey.ts";

interface Matrix {
  version: string;
  routes: typeof supabaseAuthRoutes;
  directCalls: DirectCall[];
  adminCalls: DirectCall[];
  upkeepCalls: DirectCall[];
}

/** The routes that can create an account. remix-app/session/closed-sign-up.integration.test.ts calls most of them. */
const creatingRoutes = [
  "POST /signup",
  "POST /token?grant_type=id_token",
  "POST /otp",
  "POST /magiclink",
  "GET /callback",
  "POST /callback",
  "POST /invite",
  "POST /admin/users",
  "POST /admin/generate_link",
  "POST /sso/saml/acs",
];

/** Renders the document that lists the records and emails caused by each call, from the same cases as the test. */
export function renderMatrix({ version, routes, directCalls, adminCalls, upkeepCalls }: Matrix): string {
  const kinds = Object.entries(routes);
  const settings = new Set(kinds.flatMap(([, kind]) => (typeof kind === "object" ? [kind.setting] : [])));
  const closed = [...settings].map((setting) => [
    `\`${setting}\``,
    codes(kinds.flatMap(([route, kind]) => (typeof kind === "object" && kind.setting === setting ? [route] : []))),
  ]);
  return `# Direct calls of the identity backend

Every route of Supabase Auth ${version}, and what its calls record and mail without our server. The triggers in \`supabase/schemas/auth-schema.sql\` do this on every plan. This page is generated from \`supabase/tests/direct-calls/\`. \`npm test -- direct-calls -u\` updates it, and the test fails if it is out of date.

An addition is *unconfirmed* until the owner confirms it under "Review account access". The table lists our mails to the owner, not the backend's mails with links and codes.

A refused addition to an account with a verified authenticator is 403 for an authenticator, by the MFA attempt hook, and ends no session. It is 500 for a passkey, for a provider's link, and without that hook: Supabase Auth maps no database error to another status. \`GET /api/v1/users/me/additions\` tells an app beforehand ([mobile apps](mobile.md#enrol-an-authenticator)).

## With the publishable key or a user's token

${rows(directCalls)}

## With the secret key

${rows(adminCalls)}

## Without a client's request

${rows(upkeepCalls)}

## While sign-up is by invitation

These routes create accounts. If the email has no invitation, they answer 500, or lead back with \`error=server_error\`, and create nothing ([closed sign-up](security-model.md#closed-sign-up)).

${codes(creatingRoutes)}

## Routes that change no account

${codes(kinds.flatMap(([route, kind]) => (kind === "reads" ? [route] : [])))}

## Routes that are turned off

| setting that turns them on | routes |
|---|---|
${closed.map((cells) => `| ${cells.join(" | ")} |`).join("\n")}

## Routes for administrators

Each of these refuses a user's token.

${codes(kinds.flatMap(([route, kind]) => (kind === "admin" ? [route] : [])))}
`;
}

const codes = (routes: string[]) => routes.map((route) => `\`${route}\``).join(", ");

function rows(calls: DirectCall[]): string {
  const lines = [...calls].map(({ route, title, refused, events = [], mails = {}, unconfirmed = [] }) => {
    const allowed = refused ? "refused" : unconfirmed.length > 0 ? "allowed, unconfirmed" : "allowed";
    const mailed = Object.entries(mails).map(([kind, addresses]) =>
      addresses > 1 ? `\`${kind}\`, to the old and the new address` : `\`${kind}\``,
    );
    const cells = [`\`${route}\``, title, allowed, codes(events) || "–", mailed.join(", ") || "–"];
    return `| ${cells.join(" | ")} |`;
  });
  return ["| route | call | answer | activity | mail |", "|---|---|---|---|---|", ...lines].join("\n");
}
