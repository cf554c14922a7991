import { createClient } from "@supabase/supabase-js";
import { decodeJwt } from "jose";
import { query } from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import type { DirectCall } from "./journey.ts";
import { type Answer, enroll, signedIn } from "./phone.ts";

const { supabase } = readStack();
const service = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
const nothingToSay: Answer = { status: 204, body: "", location: "" };

/** Runs a statement of Supabase Auth's cleanup (`internal/models/cleanup.go`). */
const cleanUp = (table: string, condition: string) => async () => {
  await query(
    `delete from auth."${table}" where id in (select id from auth."${table}" where ${condition} limit 100 for update skip locked);`,
    [],
  );
  return nothingToSay;
};

/** Changes to an account without any request, and changes by our own functions. None of them is recorded. */
export const upkeepCalls: DirectCall[] = [
  {
    route: "clean-up",
    title: "sessions that expired",
    async prepare() {
      const { person } = await signedIn();
      await query("update auth.sessions set not_after = now() - interval '4 days' where user_id = $1", [person.id]);
      return { person, act: cleanUp("sessions", "not_after < now() - interval '72 hours'") };
    },
  },
  {
    route: "clean-up",
    title: "authenticators that were never verified",
    async prepare() {
      const { person, session } = await signedIn();
      await enroll(session.accessToken);
      await query("update auth.mfa_factors set created_at = now() - interval '2 days' where user_id = $1", [person.id]);
      const old = "created_at < now() - interval '24 hours' and status = 'unverified'";
      return { person, act: cleanUp("mfa_factors", old) };
    },
  },
  {
    route: "database encryption",
    title: "a stored hash that is encrypted at a sign-in",
    async prepare() {
      const { person } = await signedIn();
      return {
        person,
        async act() {
          // The statement in Supabase Auth's password grant (`internal/api/token.go`).
          await query(
            `update auth.users set encrypted_password = '{"key_id":"k1","alg":"aes-gcm-hkdf"}', updated_at = now()
             where id = $1`,
            [person.id],
          );
          return nothingToSay;
        },
      };
    },
  },
  {
    route: "our server",
    title: "a session that our functions end",
    async prepare() {
      const { person, session } = await signedIn();
      const sessionId = decodeJwt(session.accessToken).session_id;
      const call = { subject_id: person.id, target_id: sessionId };
      return {
        person,
        async act() {
          const { status } = await service.schema("private").rpc("end_account_session", call);
          return { ...nothingToSay, status };
        },
      };
    },
  },
];
