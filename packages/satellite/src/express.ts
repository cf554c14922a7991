import type { IncomingMessage, ServerResponse } from "node:http";
import type { CentralApi } from "./central-api.ts";
import type { SatelliteOptions } from "./options.ts";
import { createSatellite as createCore } from "./satellite.ts";
import type { SatelliteUser } from "./sessions.ts";

type ExpressRequest = IncomingMessage & { originalUrl?: string; user?: SatelliteUser | null };
type Next = (error?: unknown) => void;
type Middleware = (req: ExpressRequest, res: ServerResponse, next: Next) => Promise<void>;

/** Express middleware that answers the sign-in endpoints and sets `req.user`. Use it before body parsers. */
export interface ExpressSatellite extends Middleware {
  /** Redirects a visitor without a session to the platform's sign-in, which leads back to this app. */
  requireUser: Middleware;
  /**
   * Handles errors of this package, such as a required sign-in or an unavailable central API. Use it after the routes.
   */
  onError: (error: unknown, req: ExpressRequest, res: ServerResponse, next: Next) => Promise<void>;
  central(req: ExpressRequest): CentralApi;
  signOut(req: ExpressRequest): Promise<void>;
}

/** Creates the satellite as Express middleware. @throws SatelliteConfigError */
export function createSatellite(options?: SatelliteOptions): ExpressSatellite {
  const core = createCore(options);
  const requests = new WeakMap<ExpressRequest, Request>();

  function requestOf(req: ExpressRequest, res: ServerResponse): Request {
    const known = requests.get(req);
    if (known) return known;
    const request = toRequest(req, core.origin);
    requests.set(req, request);
    core.attach(request, {
      setCookie(header) {
        if (res.headersSent) return;
        res.appendHeader("Set-Cookie", header);
        if (!res.hasHeader("Cache-Control")) res.setHeader("Cache-Control", "private, no-store");
      },
    });
    return request;
  }

  function opened(req: ExpressRequest): Request {
    const request = requests.get(req);
    if (!request) throw new Error("Call app.use(satellite) before the routes that use it.");
    return request;
  }

  async function answerError(
    error: unknown,
    { request, res, next }: { request: Request; res: ServerResponse; next: Next },
  ) {
    const response = core.errorResponse(error, request);
    if (response && !res.headersSent) await send(response, res);
    else next(error);
  }

  async function middleware(req: ExpressRequest, res: ServerResponse, next: Next): Promise<void> {
    const request = requestOf(req, res);
    try {
      const response = await core.handle(request);
      if (response) return await send(response, res);
      req.user = await core.getUser(request);
    } catch (error) {
      return answerError(error, { request, res, next });
    }
    next();
  }

  return Object.assign(middleware, {
    async requireUser(req: ExpressRequest, res: ServerResponse, next: Next) {
      const request = opened(req);
      try {
        req.user = await core.requireUser(request);
      } catch (error) {
        return answerError(error, { request, res, next });
      }
      next();
    },
    onError: (error: unknown, req: ExpressRequest, res: ServerResponse, next: Next) =>
      answerError(error, { request: requestOf(req, res), res, next }),
    central: (req: ExpressRequest) => core.central(opened(req)),
    signOut: (req: ExpressRequest) => core.signOut(opened(req)),
  });
}

/** Builds the request on the app's own origin, because `Host` is not trusted. */
function toRequest(req: ExpressRequest, origin: string): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(req.headers)) if (value !== undefined) headers.set(name, String(value));
  const path = req.originalUrl ?? req.url ?? "/";
  const url = URL.canParse(path, origin) ? new URL(path, origin) : new URL("/", origin);
  const method = req.method ?? "GET";
  const body = method === "GET" || method === "HEAD" ? null : bodyOf(req);
  return new Request(url, { method, headers, ...(body ? { body, duplex: "half" } : {}) } as RequestInit);
}

/** Returns the body as a lazy stream. If nothing reads the stream, the app's body parsers still find the whole body. */
function bodyOf(req: ExpressRequest): ReadableStream<Uint8Array> {
  let chunks: AsyncIterator<Uint8Array> | undefined;
  const source: UnderlyingDefaultSource<Uint8Array> = {
    async pull(controller) {
      // Keeps the request open, because a destroyed request could not be answered with 413.
      chunks ??= req.iterator({ destroyOnReturn: false });
      const { done, value } = await chunks.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await chunks?.return?.();
    },
  };
  return new ReadableStream(source, { highWaterMark: 0 });
}

async function send(response: Response, res: ServerResponse): Promise<void> {
  res.statusCode = response.status;
  for (const [name, value] of response.headers) if (name !== "set-cookie") res.setHeader(name, value);
  for (const cookie of response.headers.getSetCookie()) res.appendHeader("Set-Cookie", cookie);
  res.end(Buffer.from(await response.arrayBuffer()));
}
