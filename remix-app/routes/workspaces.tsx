import { useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { requireUser } from "../identity/user.ts";
export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  return { email: user.email };
}
export default function HomePage() {
  return <p>{useLoaderData<typeof loader>().email}</p>;
}
