import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { secureHeaders } from "hono/secure-headers";
import { CentralApiError, SatelliteError } from "#satellite/errors";
import { createSatellite, type SatelliteEnv } from "#satellite/hono";
import { failurePage, homePage, signedOutPage, workspacePage } from "./pages.ts";
import { readNotesSettings } from "./settings.ts";
import { stylesheet } from "./styles.ts";

const maxBodyBytes = 64 * 1024;

/**
 * Creates Notes, the satellite that runs with the platform.
 * @throws Error with one line per fault of the environment
 */
export function createNotes(
  env: Readonly<Record<string, string | undefined>>,
  { log }: { log: (line: string) => void },
) {
  const { brandName, accent, introspectionCacheSeconds, host, port } = readNotesSettings(env);
  const satellite = createSatellite({ env, introspectionCacheSeconds, log });
  const name = env.APP_NAME ?? "";
  const appName = name.charAt(0).toUpperCase() + name.slice(1);
  const isSecure = env.BASE_URL?.startsWith("https:") ?? false;
  const app = new Hono<SatelliteEnv>();

  app.use(async (c, next) => {
    const started = performance.now();
    await next();
    const { pathname } = new URL(c.req.url);
    if (pathname === "/healthz") return;
    const ms = (performance.now() - started).toFixed(1);
    // Logs only the path, because a query may contain a token.
    log(`status=${c.res.status} method=${c.req.method} path=${JSON.stringify(pathname)} ms=${ms}`);
  });
  app.get("/healthz", (c) => c.json({ status: "ok", app: name }));
  app.get("/styles.css", (c) =>
    c.body(stylesheet(accent), {
      headers: { "Content-Type": "text/css; charset=utf-8", "Cache-Control": "max-age=3600" },
    }),
  );
  app.use(satellite);
  app.use(
    secureHeaders({
      contentSecurityPolicy: {
        defaultSrc: ["'self'"],
        objectSrc: ["'none'"],
        baseUri: ["'none'"],
        formAction: ["'self'"],
        frameAncestors: ["'none'"],
      },
      referrerPolicy: "same-origin",
      xFrameOptions: "DENY",
      strictTransportSecurity: isSecure ? "max-age=63072000; includeSubDomains" : false,
    }),
    bodyLimit({
      maxSize: maxBodyBytes,
      onError: (c) => {
        const frame = { appName, user: (c.get("user") as SatelliteEnv["Variables"]["user"]) ?? null };
        return c.html(failurePage(frame, { title: "This is too large", detail: "Send at most 64 KiB." }), 413);
      },
    }),
    async (c, next) => {
      await next();
      c.header("Cache-Control", "private, no-store");
    },
  );

  app.get("/", async (c) => {
    const frame = { appName, user: c.get("user") };
    if (!frame.user) return c.html(signedOutPage(frame, { brandName }));
    const cursor = c.req.query("cursor");
    const page = await satellite.central(c).workspaces.list({ cursor });
    return c.html(homePage(frame, { ...page, isFirst: cursor === undefined }));
  });

  app.get("/w/:id", satellite.requireUser, async (c) => {
    const workspace = await satellite.central(c).workspaces.get(c.req.param("id"));
    const renamed = c.req.query("renamed") !== undefined;
    return c.html(workspacePage({ appName, user: c.get("user") }, { workspace, renamed }));
  });

  app.post("/w/:id", satellite.requireUser, async (c) => {
    const user = c.get("user");
    const id = c.req.param("id");
    const { workspaces } = satellite.central(c);
    // A body that isn't a form has no name, like an empty form.
    const form: Record<string, unknown> = await c.req.parseBody().catch(() => ({}));
    const name = String(form.name ?? "");
    const refuse = async (error: string, status: 400 | 409) =>
      c.html(
        workspacePage({ appName, user }, { workspace: await workspaces.get(id), name, error, renamed: false }),
        status,
      );
    // Another tab may have signed in to another account since the page was opened.
    if (form.person !== undefined && form.person !== user?.id) {
      const now = user?.email ?? user?.name ?? "another account";
      return refuse(
        `You’re signed in as ${now} now. Nothing was changed. Save again to continue as this account.`,
        409,
      );
    }
    try {
      await workspaces.rename(id, name);
    } catch (error) {
      if (!(error instanceof CentralApiError && error.code === "invalid_request")) throw error;
      return refuse("Enter a name of 1 to 80 characters.", 400);
    }
    return c.redirect(`/w/${encodeURIComponent(id)}?renamed`, 303);
  });

  app.notFound((c) => {
    const frame = { appName, user: c.get("user") ?? null };
    const detail = "The address may be mistyped, or the page may have moved.";
    return c.html(failurePage(frame, { title: "There is nothing here", detail }), 404);
  });

  app.onError((error, c) => {
    const frame = { appName, user: c.get("user") ?? null };
    if (error instanceof CentralApiError) {
      const { title, detail } = failures[error.code] ?? failures.forbidden;
      return c.html(failurePage(frame, { title, detail }), error.status as 403 | 404 | 429);
    }
    // The satellite package's middleware handles a SatelliteError and replaces this response, so only other errors are
    // logged.
    if (!(error instanceof SatelliteError)) log(`error ${error.stack ?? error.message}`);
    return c.html(failurePage(frame, { title: "Something went wrong", detail: "Try again in a moment." }), 500);
  });

  return { fetch: app.fetch, host, port };
}

type Failure = { title: string; detail: string };
const failures: Record<string, Failure> & { forbidden: Failure } = {
  invalid_request: { title: "There is nothing here", detail: "The address may be mistyped." },
  forbidden: { title: "You don’t have access to this", detail: "Ask an admin of the workspace for access." },
  not_found: { title: "There is nothing here", detail: "The workspace was deleted, or you’re not a member." },
  rate_limited: { title: "Too many requests", detail: "Wait a minute, then try again." },
};
