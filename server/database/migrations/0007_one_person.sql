ALTER TABLE "connections" ADD COLUMN "connected_since" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
UPDATE "connections" SET "connected_since" = "connected_at";--> statement-breakpoint
ALTER TABLE "deal_events" ADD COLUMN "former_deal_ids" text[];--> statement-breakpoint
ALTER TABLE "deliveries" ADD COLUMN "deal_url" text;--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "former_user_id" uuid;--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_former_user_id_users_id_fk" FOREIGN KEY ("former_user_id") REFERENCES "public"."users"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "deal_events_merged" ON "deal_events" USING gin ("former_deal_ids") WHERE found_by = 'search' and former_deal_ids is not null;--> statement-breakpoint
CREATE INDEX "sessions_former_user" ON "sessions" USING btree ("former_user_id");--> statement-breakpoint
-- Until now, this time was of the server's clock, which may be ahead of the CRM's.
UPDATE "crm_accounts" SET "searched_until" = "searched_until" - interval '1 hour';
