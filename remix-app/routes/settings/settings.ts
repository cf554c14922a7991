import { type LoaderFunctionArgs, redirect } from "@remix-run/node";

/** `GET /settings`: the first of the settings pages. */
export function loader({ request }: LoaderFunctionArgs) {
  return redirect(`/settings/profile${new URL(request.url).search}`);
}
