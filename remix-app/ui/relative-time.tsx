import { Moment } from "./moment.tsx";

/** A time as people say it, for pages that are not hydrated: it is told from when they are sent. */
export function RelativeTime({ at }: { at: string }) {
  return <Moment at={at} now={new Date().toISOString()} />;
}
