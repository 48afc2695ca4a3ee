ALTER TABLE "users" RENAME COLUMN "hubspot_hub_id" TO "crm_account_id";--> statement-breakpoint
ALTER TABLE "users" RENAME COLUMN "hubspot_user_id" TO "crm_user_id";--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "crm" text;--> statement-breakpoint
UPDATE "users" SET "crm" = 'hubspot' WHERE "crm_user_id" IS NOT NULL;--> statement-breakpoint
ALTER TABLE "users" DROP CONSTRAINT "users_hubspot_identity";--> statement-breakpoint
ALTER TABLE "users" ADD CONSTRAINT "users_crm_identity" UNIQUE("crm","crm_account_id","crm_user_id");--> statement-breakpoint
ALTER TABLE "deal_events" RENAME COLUMN "portal_id" TO "account_id";--> statement-breakpoint
ALTER TABLE "deal_events" RENAME COLUMN "stage_id" TO "value";--> statement-breakpoint
ALTER TABLE "deal_events" ADD COLUMN "crm" text DEFAULT 'hubspot' NOT NULL;--> statement-breakpoint
ALTER TABLE "deal_events" ALTER COLUMN "crm" DROP DEFAULT;--> statement-breakpoint
ALTER TABLE "deal_events" ADD COLUMN "property" text DEFAULT 'stage' NOT NULL;--> statement-breakpoint
ALTER TABLE "deal_events" ALTER COLUMN "property" DROP DEFAULT;--> statement-breakpoint
ALTER TABLE "channels" ADD COLUMN "due_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "channels" ADD COLUMN "leased_by" uuid;--> statement-breakpoint
ALTER TABLE "channels" ADD COLUMN "leased_until" timestamp with time zone;--> statement-breakpoint
CREATE INDEX "channels_due" ON "channels" USING btree ("due_at") WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "channels_leased" ON "channels" USING btree ("leased_until") WHERE leased_until is not null;--> statement-breakpoint
INSERT INTO "channels" ("id", "due_at") SELECT DISTINCT "channel", now() FROM "deliveries" WHERE "state" = 'pending' ON CONFLICT ("id") DO UPDATE SET "due_at" = excluded."due_at";--> statement-breakpoint
DROP SCHEMA IF EXISTS "pgboss" CASCADE;
