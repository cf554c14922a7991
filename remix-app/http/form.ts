import { problem } from "./problem.ts";
import { redirectTarget, type TargetContext } from "./redirect-target.ts";

const formTypes = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;
/**
 * Plain names only. The form library reads paths and array indices from names (`email[99999999]` is an array of that
 * length to it) and instructions from `__intent__` and its like.
 */
const plainName = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
/** Of a page that knows no better; all of a body is limited anyway. */
const usual = { fields: 50, valueLength: 8_192 } as const;

/** Whether a request says that its body is a form. */
export function isForm(request: Request): boolean {
  return formTypes.test(request.headers.get("content-type") ?? "");
}

/**
 * Reads the form that a request posts.
 * @throws Response 415 where its content type is no form's, 400 where its body does not parse, has a field twice, too
 * many, one whose name is not plain, or a value that is a file (unless `files` allows them), too long, or no text (a NUL
 * byte, which no database takes),
 * 409 where it is of another account's page than who is signed in by now
 */
export async function readForm(
  request: Request,
  context: PageContext,
  {
    maxValueLength = usual.valueLength,
    maxFields = usual.fields,
    files = false,
  }: { maxValueLength?: number; maxFields?: number; files?: boolean } = {},
): Promise<FormData> {
  const { requestId } = context;
  if (!isForm(request)) {
    const detail = "Send the body as a form, with Content-Type: application/x-www-form-urlencoded.";
    throw problem("UNSUPPORTED_MEDIA_TYPE", { requestId, detail });
  }
  const form = await request.formData().catch(() => null);
  const names = [...(form?.keys() ?? [])];
  const plain = names.length <= maxFields && names.every((name) => plainName.test(name));
  const isText = (value: FormDataEntryValue) =>
    typeof value === "string" ? value.length <= maxValueLength && !value.includes("\0") : files;
  if (!form || !plain || new Set(names).size < names.length || ![...form.values()].every(isText)) {
    throw problem("INVALID_REQUEST", { requestId, detail: "The form couldn’t be read." });
  }
  const pageAccount = form.get(pageAccountField);
  form.delete(pageAccountField);
  if (pageAccount !== null) requirePageAccount(context, { request, pageAccount: String(pageAccount) });
  return form;
}

/**
 * For what is not for who is signed in: where the form is of another account's page, that is why. It can still be read.
 * @throws Response 409 as {@link readForm}
 */
export async function requireFormAccount(context: PageContext, request: Request): Promise<void> {
  if (request.method !== "POST" || !isForm(request)) return;
  const form = await request
    .clone()
    .formData()
    .catch(() => null);
  const pageAccount = form?.get(pageAccountField);
  if (typeof pageAccount === "string") requirePageAccount(context, { request, pageAccount });
}

// Another tab may switch accounts while a page is open: what the page sends then says whose page it is.

/** In which forms say so (AccountForm). Forms that are anybody's have none. */
export const pageAccountField = "pageAccount";

/** In which scripts say so, where their body is another service's. */
export const pageAccountHeader = "X-Page-Account";

/** What of a request says whose it is. */
export interface PageContext extends TargetContext {
  requestId: string;
  session: {
    auth:
      | { status: "authenticated"; claims: { sub: string; email?: string | undefined } }
      | { status: "anonymous" | "unavailable" };
  };
}

/**
 * Of what a page sends, which says whose page it is: it is for that account alone.
 * @throws Response 409 where another one is signed in by now; it has the page, for the way back
 */
export function requirePageAccount(
  context: PageContext,
  { request, pageAccount }: { request: Request; pageAccount: string },
): void {
  const { auth } = context.session;
  if (auth.status !== "authenticated" || pageAccount === auth.claims.sub) return;
  const { pathname } = new URL(request.url);
  const fallback = redirectTarget(pathname, { context, fallback: "/" });
  const page = redirectTarget(request.headers.get("referer"), { context, fallback });
  const active = auth.claims.email || "another account";
  const detail = `You’re now signed in as ${active}, but you sent this from another account’s page. Nothing was changed.`;
  throw problem("CONFLICT", { requestId: context.requestId, detail, members: { page } });
}
