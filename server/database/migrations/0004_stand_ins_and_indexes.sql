DROP INDEX "deliveries_pending_user";--> statement-breakpoint
ALTER TABLE "connections" ADD COLUMN "stand_in" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "authorizations_session" ON "authorizations" USING btree ("session_hash");--> statement-breakpoint
CREATE INDEX "authorizations_expires" ON "authorizations" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "deliveries_user" ON "deliveries" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "sessions_expires" ON "sessions" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "users_unnamed" ON "users" USING btree ("created_at") WHERE crm_user_id is null;--> statement-breakpoint
UPDATE "connections" SET "stand_in" = true WHERE "account_id" IN ('4200001', 'T0STANDIN1');
