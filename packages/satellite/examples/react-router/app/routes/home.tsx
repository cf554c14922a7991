import type { LoaderFunctionArgs } from "react-router";
import { useLoaderData } from "react-router";
import { satellite } from "../satellite.server";

export async function loader(args: LoaderFunctionArgs) {
  return { user: await satellite.getUser(args) };
}

export default function Home() {
  const { user } = useLoaderData<typeof loader>();
  return <main>Hello {user?.email ?? "World"}!</main>;
}
