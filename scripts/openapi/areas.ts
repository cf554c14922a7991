import { readFileSync } from "node:fs";
import { adminApiOperations } from "../../remix-app/admin-api/admin-operations.ts";
import { deviceOperations } from "../../remix-app/openid/device/device-operations.ts";
import { appOperations } from "../../remix-app/satellites/operations.ts";
import { scheduleOperations } from "../../remix-app/schedule/run-schedule.ts";
import { accountOperations } from "../../remix-app/session/account-operations.ts";
import { challengeOperations } from "../../remix-app/session/challenge-operations.ts";
import { identityOperations } from "../../remix-app/session/operations.ts";
import { studioOperations } from "../../remix-app/studio/operations.ts";
import { workspaceOperations } from "../../remix-app/workspaces/operations.ts";
import { gatewayOperations } from "../../supabase/functions/_gateway/operations.ts";
import type { Operation } from "../../supabase/functions/_shared/operation.ts";
import type { Area } from "./document.ts";
import { gatewayStyle, messagesStyle, problemStyle } from "./error-styles.ts";
import { legacyOperation, playgroundOperation } from "./passed-on.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};
const server = (name: string, host: string) => ({
  url: `https://{host}`,
  description: name,
  variables: { host: { default: host } },
});

const platformOperations: readonly Operation[] = [
  ...accountOperations,
  ...identityOperations,
  ...challengeOperations,
  ...deviceOperations,
  ...appOperations,
  ...workspaceOperations,
  ...studioOperations,
  ...scheduleOperations,
  ...adminApiOperations,
];
const onSatellites = new Set(["verifyAppToken"]);

/** The API of the web server. */
export const platformArea: Area = {
  info: {
    title: "Gatehouse platform API",
    version,
    description:
      "Accounts, workspaces and the AI studio. Bodies are JSON, times are RFC 3339 in UTC, and amounts are USD. Below /api/v1/admin, amounts are exact decimal text. Lists take limit and cursor and return nextCursor. A request that changes something must have an Authorization header or come from the platform's own pages. Errors are problem details (RFC 9457) with a code from a closed list. Every response has x-request-id.",
  },
  servers: [server("The platform", "app.example.com")],
  securitySchemes: {
    session: {
      type: "apiKey",
      in: "cookie",
      name: "sb-project-auth-token",
      description: "The session cookie of a signed-in browser. Its name contains the Supabase project's reference.",
    },
    bearer: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "JWT",
      description: "An access token of the identity backend, as used by mobile apps.",
    },
    service: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "ghs_…",
      description:
        "A service account's token, from the grant client_credentials at /oauth/token. It needs the scope that the operation's permission names.",
    },
    appSession: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "app-session+jwt",
      description:
        "The session token of a connected web app (a satellite). It acts for the user who signed in to that app.",
    },
    app: { type: "http", scheme: "basic", description: "A registered app's name and secret." },
    workspaceKey: { type: "http", scheme: "bearer", bearerFormat: "ttr_ai_…", description: "A workspace API key." },
    appToken: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "ttr_app_…",
      description: "A registered external app's token for one user.",
    },
    userToken: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "JWT",
      description:
        "An access token of the identity backend, as in bearer, for endpoints that also accept a workspace key.",
    },
    scheduler: { type: "http", scheme: "bearer", description: "The deployment's SCHEDULE_SECRET." },
  },
  operations: [
    ...platformOperations.map((operation) => ({
      operation,
      errors: [problemStyle],
      ...(onSatellites.has(operation.id) ? { servers: [server("A satellite", "notes.example.com")] } : {}),
    })),
    { operation: playgroundOperation, errors: [problemStyle, gatewayStyle] },
    { operation: legacyOperation, errors: [gatewayStyle] },
  ],
};

/** The AI gateway. */
export const gatewayArea: Area = {
  info: {
    title: "Gatehouse AI gateway",
    version,
    description:
      "OpenAI-compatible text and speech, and the import of provider costs and invoices. Point an OpenAI client at /v1. Requests can have x-request-id and idempotency-key. Errors have OpenAI's shape with a code from a closed list. After 20 seconds without an answer, a response begins with status 200 and keeps its connection alive; a failure after that is an error event, or the error object in place of the JSON answer. CORS is not supported: keep credentials out of browsers.",
  },
  servers: [server("The gateway", "project.supabase.co/functions")],
  securitySchemes: {
    workspaceKey: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "ttr_ai_…",
      description: "A workspace API key. Imports and usage need a key that is bound to a registered app.",
    },
    appToken: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "ttr_app_…",
      description: "A registered external app's token for one user. Requires X-Platform-Workspace-Id.",
    },
    userToken: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "JWT",
      description: "A user's access token of the identity backend. Requires X-Platform-Workspace-Id.",
    },
  },
  operations: gatewayOperations.map((operation) => ({
    operation,
    errors: [operation.path.startsWith("/v1/messages") ? messagesStyle : gatewayStyle],
  })),
};
