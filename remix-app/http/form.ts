import { problem } from "./problem.ts";
import { redirectTarget } from "./redirect-target.ts";

/** In which the forms of a page say whose it is (AccountForm). Forms that are anybody's have none. */
export const pageAccountField = "pageAccount";

const formTypes = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;
/**
 * Plain names only. The form library reads paths and array indices from names (`email[99999999]` is an array of that
 * length to it) and instructions from `__intent__` and its like.
 */
const plainName = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
/** Of a page that knows no better; all of a body is limited anyway. */
const usual = { fields: 50, valueLength: 8_192 } as const;

/** What a form has to know of its request: its id, and whose it is. */
interface FormContext {
  requestId: string;
  session: {
    auth:
      | { status: "authenticated"; claims: { sub: string; email?: string | undefined } }
      | { status: "anonymous" | "unavailable" };
  };
}

/** Whether a request says that its body is a form. */
export function isForm(request: Request): boolean {
  return formTypes.test(request.headers.get("content-type") ?? "");
}

/**
 * Reads the form that a request posts.
 * @throws Response 415 where its content type is no form's, 400 where its body does not parse, has a field twice, too
 * many, one whose name is not plain, or a value that is a file, too long, or no text (a NUL byte, which no database takes),
 * 409 where it is of another account's page than who is signed in by now
 */
export async function readForm(
  request: Request,
  context: FormContext,
  {
    maxValueLength = usual.valueLength,
    maxFields = usual.fields,
  }: { maxValueLength?: number; maxFields?: number } = {},
): Promise<FormData> {
  const { requestId } = context;
  if (!isForm(request)) {
    throw problem("INVALID_REQUEST", { requestId, status: 415, detail: "This takes a form." });
  }
  const form = await request.formData().catch(() => null);
  const names = [...(form?.keys() ?? [])];
  const plain = names.length <= maxFields && names.every((name) => plainName.test(name));
  const isText = (value: FormDataEntryValue) =>
    typeof value === "string" && value.length <= maxValueLength && !value.includes("\0");
  if (!form || !plain || new Set(names).size < names.length || ![...form.values()].every(isText)) {
    throw problem("INVALID_REQUEST", { requestId, detail: "The form could not be read." });
  }
  const pageAccount = form.get(pageAccountField);
  form.delete(pageAccountField);
  if (pageAccount !== null) requirePageAccount(context, { request, pageAccount: String(pageAccount) });
  return form;
}

/**
 * Of what a page sends, which says whose page it is: it is for that account alone.
 * @throws Response 409 where another one is signed in by now; it has the page, for the way back
 */
export function requirePageAccount(
  { requestId, session: { auth } }: FormContext,
  { request, pageAccount }: { request: Request; pageAccount: string },
): void {
  if (auth.status !== "authenticated" || pageAccount === auth.claims.sub) return;
  const { origin, pathname } = new URL(request.url);
  const page = redirectTarget(request.headers.get("referer"), { origin, fallback: pathname });
  const active = auth.claims.email || "another account";
  const detail = `You are signed in as ${active} now, and what you sent is from another account's page. Nothing was changed.`;
  throw problem("CONFLICT", { requestId, detail, members: { page } });
}
