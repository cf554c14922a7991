import { satellite } from "../satellite";

export default async function Home() {
  const user = await satellite.getUser();
  return <main>Hello {user?.email ?? "World"}!</main>;
}
