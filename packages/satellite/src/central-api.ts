import { CentralApiError, PlatformUnavailableError, type SatelliteErrorCode } from "./errors.ts";

export interface Workspace {
  id: string;
  name: string;
  role: string;
}

export interface WorkspaceDetails extends Workspace {
  permissions: readonly string[];
}

/**
 * The central API. Each call acts as the person who sent the request, and throws SignInRequiredError if the session has
 * ended.
 */
export interface CentralApi {
  /** Calls a path of the platform, such as `/api/v1/workspaces`, and returns the response unchanged. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  workspaces: {
    /** Returns a page of workspaces. `cursor` is the `nextCursor` of the previous page. */
    list(page?: {
      cursor?: string | null | undefined;
      limit?: number;
    }): Promise<{ workspaces: Workspace[]; nextCursor: string | null }>;
    get(id: string): Promise<WorkspaceDetails>;
    rename(id: string, name: string): Promise<WorkspaceDetails>;
  };
}

const refusals: Record<number, SatelliteErrorCode> = {
  400: "invalid_request",
  403: "forbidden",
  404: "not_found",
  429: "rate_limited",
};

/** Creates the client from a fetch function that authenticates its calls. */
export function createCentralApi(fetchCentral: CentralApi["fetch"]): CentralApi {
  const pathOf = (id: string) => `/api/v1/workspaces/${encodeURIComponent(id)}`;

  async function read<Body>(path: string, init?: RequestInit): Promise<Body> {
    const response = await fetchCentral(path, init);
    const { status } = response;
    const body: unknown = await response.json().catch(() => null);
    const code = refusals[status];
    if (code)
      throw new CentralApiError(code, { status, message: detailOf(body) ?? `The platform answered ${status}.` });
    if (!response.ok || typeof body !== "object" || body === null)
      throw new PlatformUnavailableError(`The platform answered ${path} with ${status}.`);
    return body as Body;
  }

  return {
    fetch: fetchCentral,
    workspaces: {
      async list({ cursor, limit } = {}) {
        const query = new URLSearchParams({
          ...(cursor ? { cursor } : {}),
          ...(limit ? { limit: String(limit) } : {}),
        });
        const { workspaces, nextCursor } = await read<{ workspaces: Workspace[]; nextCursor?: string | null }>(
          `/api/v1/workspaces${query.size > 0 ? `?${query}` : ""}`,
        );
        return { workspaces, nextCursor: nextCursor ?? null };
      },
      get: (id) => read(pathOf(id)),
      rename: (id, name) =>
        read(pathOf(id), {
          method: "PATCH",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify({ name }),
        }),
    },
  };
}

function detailOf(body: unknown): string | undefined {
  const detail = typeof body === "object" && body !== null ? (body as { detail?: unknown }).detail : undefined;
  return typeof detail === "string" ? detail : undefined;
}
