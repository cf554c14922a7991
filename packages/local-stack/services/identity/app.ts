import { Hono } from "hono";
import type { Deps } from "./core/deps.ts";
import { AuthError } from "./core/errors.ts";
import type { Env } from "./http/context.ts";
import { corsHeaders } from "./http/cors.ts";
import { errorResponse } from "./http/error-response.ts";
import { addressLimits } from "./http/limits.ts";
import { adminCredentialRoutes } from "./routes/admin-credentials.ts";
import { adminUserRoutes } from "./routes/admin-users.ts";
import { factorRoutes } from "./routes/factors.ts";
import { mailRequestRoutes } from "./routes/mail-requests.ts";
import { notImplementedRoutes } from "./routes/not-implemented.ts";
import { oauthRoutes } from "./routes/oauth.ts";
import { passkeyRoutes } from "./routes/passkeys.ts";
import { keySetRoute, publicRoutes } from "./routes/public.ts";
import { signUpRoutes } from "./routes/sign-up.ts";
import { tokenRoutes } from "./routes/token.ts";
import { answerUnrouted } from "./routes/unrouted.ts";
import { userRoutes } from "./routes/user.ts";
import { verifyRoutes } from "./routes/verify.ts";

/** Creates the identity server's HTTP app without starting a server. */
export function createApp(deps: Deps): Hono<Env> {
  const limits = addressLimits(deps);
  const app = new Hono<Env>();
  app.route("/", keySetRoute(deps));
  app.use(async (c, next) => {
    c.set("requestId", deps.random.uuid());
    await next();
  });
  app.use(corsHeaders(deps.config));
  app.use(async (_c, next) => {
    await withinTime(next(), deps.config.GOTRUE_API_MAX_REQUEST_DURATION);
  });
  // HEAD would run the GET handlers, which redeem tokens. Email scanners send HEAD.
  app.use(async (c, next) => (c.req.raw.method === "HEAD" ? c.notFound() : next()));
  for (const routes of [
    publicRoutes(deps),
    signUpRoutes(deps, limits),
    tokenRoutes(deps, limits),
    verifyRoutes(deps, limits),
    mailRequestRoutes(deps, limits),
    userRoutes(deps, limits),
    factorRoutes(deps, limits),
    passkeyRoutes(deps, limits),
    oauthRoutes(deps),
    adminUserRoutes(deps),
    adminCredentialRoutes(deps),
    notImplementedRoutes(),
  ]) {
    app.route("/", routes);
  }
  app.notFound((c) => answerUnrouted(c, { deps, methods: allowedMethods(app, c.req.path) }));
  app.onError((error, c) => errorResponse(error, c, deps.log));
  return app;
}

/**
 * Returns the methods that have a handler for this path. No route handles TRACE, so anything that matches it is
 * middleware.
 */
function allowedMethods(app: Hono<Env>, path: string): string[] {
  const count = (method: string) => app.router.match(method, path)[0].length;
  return ["GET", "POST", "PUT", "PATCH", "DELETE"].filter((method) => count(method) > count("TRACE"));
}

/** @throws AuthError 504 request_timeout if the work takes too long; the work continues in the background */
async function withinTime(work: Promise<void>, limitMs: number): Promise<void> {
  if (!limitMs) return work;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      const message = "Processing this request timed out, please retry after a moment.";
      reject(new AuthError(504, "request_timeout", message));
    }, limitMs);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
