import { problem } from "./problem.ts";

const formTypes = /^(application\/x-www-form-urlencoded|multipart\/form-data)\s*(;|$)/i;

/**
 * Reads the form that a request posts.
 * @throws Response 415 where its content type is no form's, 400 where its body does not parse
 */
export async function readForm(request: Request, { requestId }: { requestId: string }): Promise<FormData> {
  if (!formTypes.test(request.headers.get("content-type") ?? "")) {
    throw problem("INVALID_REQUEST", { requestId, status: 415, detail: "This takes a form." });
  }
  try {
    return await request.formData();
  } catch {
    throw problem("INVALID_REQUEST", { requestId, detail: "The form could not be read." });
  }
}
