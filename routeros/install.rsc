# wattle on RouterOS 7.6 or later (7.21 or later recommended): a container, its network and its place in the firewall.
# Edit the settings, copy this file and the image's tar to the router, then:  /import file-name=install.rsc
# check.rsc and update.rsc run this file, too. Everything made here carries the comment or the name below; uninstall.rsc removes it.

# ---- settings ----------------------------------------------------------------------------------------------------
# Name of the interface, and the mark on everything made here: at most 14 letters and digits.
:local tag "wattle"
# The image: a tar on the router. Both empty: the one wattle-VERSION-*.tar for this device that is there.
:local imageFile ""
# Or the name of an image in the registry of /container/config.
:local imageName ""
# The disk, by its slot in /disk, ext4 or btrfs; "" is the internal flash (only where it is 128 MB or more).
:local diskSlot "usb1"
# UDP port of the mesh, "listen" in wattle.json. 500 and 4500 would be taken from the router's own IPsec and L2TP.
:local meshPort 4501
# The link between router and container: a /30 that nothing else uses.
:local routerAddress "172.31.255.1"
:local containerAddress "172.31.255.2"
# The same for IPv6, addresses of one /64 that is routed to this router; "" leaves IPv6 out.
:local routerAddress6 ""
:local containerAddress6 ""
# What the router shall send into the mesh, comma-separated prefixes; "" sets no routes.
:local meshRoutes "10.66.0.0/16"
# Name servers of the container; "" is the router, or what the router uses itself.
:local nameServers ""
# Interface lists: the default configuration has both.
:local lanList "LAN"
:local wanList "WAN"
# error, warn, info, debug or trace
:local logLevel "info"
# yes: larger socket buffers and less loss under load, for more rights on the router (7.24 and later only).
:local wantPrivileged "no"

# ---- preflight: reads only ---------------------------------------------------------------------------------------
:global wattleMode
:local runMode "install"
:if ([:typeof $wattleMode] = "str") do={ :set runMode $wattleMode }
:set wattleMode

# Unknown options and menus end a whole script before its first line runs: what not every version and device has is text,
# parsed when it is wanted.
:local run do={ :local code [:parse $1]; $code }
:local ask do={ :local code [:parse $1]; :return [$code] }

:local problems ""
:local notes ""

:local release [/system/resource/get version]
:local dot [:find $release "."]
:local major [:tonum [:pick $release 0 $dot]]
:local rest [:pick $release ($dot + 1) [:len $release]]
:local digits 0
:while (($digits < [:len $rest]) && ([:typeof [:find "0123456789" [:pick $rest $digits ($digits + 1)]]] = "num")) do={ :set digits ($digits + 1) }
:local minor [:tonum [:pick $rest 0 $digits]]
:if (($major != 7) || ($minor < 6)) do={ :set problems ($problems . "\n- RouterOS $release: 7.6 or later is needed, 7.21 or later recommended") }

:local machine [/system/resource/get architecture-name]
:local wanted ""
:if ($machine = "arm64") do={ :set wanted "arm64" }
:if ($machine = "x86_64") do={ :set wanted "amd64" }
:if ($machine = "x86") do={ :set wanted "amd64" }
:if ($machine = "arm") do={
  :set wanted "arm-v7"
  # A CPU that takes ARMv5 code only (EN7562CT): the arm-v7 image dies there with signal 4.
  :local boardModel ""
  :do { :set boardModel [$ask ":return [/system/routerboard/get model]"] } on-error={}
  :local boardName [/system/resource/get board-name]
  :foreach mark in={"E50UG"; "E60iUGS"; "hEX refresh"; "hAP ax S"} do={
    :if (([:typeof [:find $boardModel $mark]] = "num") || ([:typeof [:find $boardName $mark]] = "num")) do={ :set wanted "arm-v5" }
  }
}
:if ($wanted = "") do={ :set problems ($problems . "\n- architecture $machine: containers run on arm, arm64 and x86_64 only") }

:local packages 0
:do { :set packages [:len [/system/package/find where name="container" and disabled=no]] } on-error={}
:local menu "no"
:do { :local parsed [:parse "/container/print count-only"]; :set menu "yes" } on-error={}
:if (($packages = 0) || ($menu = "no")) do={ :set problems ($problems . "\n- the container package is missing: install container-*.npk of this version, then reboot") }

:local allowed "no"
:do { :set allowed [:tostr [$ask ":return [/system/device-mode/get container]"]] } on-error={}
:if (($allowed != "true") && ($allowed != "yes")) do={ :set problems ($problems . "\n- device mode forbids containers: /system/device-mode/update container=yes, then press the button or cut the power within 5 minutes") }

:local freeOctets [/system/resource/get free-memory]
:if ($freeOctets < 25165824) do={ :set problems ($problems . "\n- only $freeOctets octets of memory are free: 24 MB are needed") }

:if (($imageFile != "") && ($imageName != "")) do={ :set problems ($problems . "\n- settings: give either imageFile or imageName") }
:if (($imageFile = "") && ($imageName = "") && ($wanted != "")) do={
  :local found [/file/find where name~("wattle-[^/]*-" . $wanted . "[.]tar\$")]
  :if ([:len $found] = 1) do={ :set imageFile [/file/get [:pick $found 0] name] }
  :if ([:len $found] = 0) do={ :set problems ($problems . "\n- the image wattle-VERSION-$wanted.tar is not on the router: copy it there") }
  :if ([:len $found] > 1) do={ :set problems ($problems . "\n- there are several images for $wanted on the router: remove all but one, or set imageFile") }
}
:if (($imageFile != "") && ([:len [/file/find where name=$imageFile]] = 0)) do={ :set problems ($problems . "\n- $imageFile is not on the router: copy the image there, or correct imageFile") }
:if (($imageFile != "") && ([:typeof [:find $imageFile $wanted]] != "num")) do={ :set notes ($notes . "\n- this device needs an image for $wanted: make sure that $imageFile is that one") }

:local base ""
:if ($diskSlot != "") do={
  :set base ($diskSlot . "/")
  :local slots [/disk/find where slot=$diskSlot]
  :if ([:len $slots] = 0) do={ :set problems ($problems . "\n- there is no disk $diskSlot: /disk/print shows the slots (a USB disk needs up to 30 s after the start)") }
  :foreach slotId in=$slots do={
    :local fsName ""
    :do { :set fsName [:tostr [/disk/get $slotId fs]] } on-error={}
    :if (($fsName = "fat32") || ($fsName = "exfat") || ($fsName = "ntfs")) do={ :set problems ($problems . "\n- $diskSlot is $fsName, on which containers fail: format it as ext4") }
    :if ($fsName = "tmpfs") do={ :set problems ($problems . "\n- $diskSlot is in memory: the container would be gone after a reboot") }
  }
}

:if ([:len [/file/find where name=($base . "wattle/wattle.json")]] = 0) do={ :set problems ($problems . "\n- there is no " . $base . "wattle/wattle.json: make the configuration from wattle.example.json and copy it there") }

:if (([:len $tag] = 0) || ([:len $tag] > 14)) do={ :set problems ($problems . "\n- settings: the tag has to have 1 to 14 characters") }
:foreach listName in={$lanList; $wanList} do={
  :if ([:len [/interface/list/find where name=$listName]] = 0) do={ :set problems ($problems . "\n- there is no interface list $listName: correct the setting, or make it with /interface/list/add name=$listName and add its interfaces") }
}

:local installed 0
:if ($menu = "yes") do={ :set installed [$ask (":return [:len [/container/find where comment=\"" . $tag . "\"]]")] }
:if ($runMode = "update") do={
  :if ($installed = 0) do={ :set problems ($problems . "\n- there is no container with the comment $tag: nothing to update") }
} else={
  :if ($installed > 0) do={ :set problems ($problems . "\n- $tag is installed already: update.rsc takes a new image, uninstall.rsc removes it") }
  :if (($installed = 0) && ([:len [/interface/find where name=$tag]] > 0)) do={ :set problems ($problems . "\n- there is an interface $tag already: run uninstall.rsc if it is a rest of wattle, else choose another tag") }
  :if ([:len [/ip/address/find where address=($routerAddress . "/30")]] > 0) do={ :set problems ($problems . "\n- the router has the address $routerAddress already: choose another /30") }
  :foreach ruleId in=[/ip/firewall/nat/find where chain="dstnat" and protocol="udp" and disabled=no] do={
    :if ([:tostr [/ip/firewall/nat/get $ruleId dst-port]] = [:tostr $meshPort]) do={ :set problems ($problems . "\n- UDP port $meshPort is forwarded elsewhere by /ip/firewall/nat: choose another port") }
  }
}
:if ((($meshPort = 500) || ($meshPort = 4500)) && ([:len [/ip/ipsec/peer/find where disabled=no]] > 0)) do={ :set problems ($problems . "\n- UDP port $meshPort belongs to the router's own IPsec, which has peers: choose another port") }

:if ($nameServers = "") do={
  :if ([/ip/dns/get allow-remote-requests] = true) do={ :set nameServers $routerAddress } else={
    :set nameServers [:tostr [/ip/dns/get servers]]
    :if ($nameServers = "") do={ :set nameServers [:tostr [/ip/dns/get dynamic-servers]] }
  }
}
# An array of servers comes as text with semicolons.
:while ([:typeof [:find $nameServers ";"]] = "num") do={ :local at [:find $nameServers ";"]; :set nameServers ([:pick $nameServers 0 $at] . "," . [:pick $nameServers ($at + 1) [:len $nameServers]]) }
:if ($nameServers = "") do={ :set problems ($problems . "\n- no name server is known, without which no container starts: set nameServers") }

:if ((($containerAddress6 = "") && ($routerAddress6 != "")) || (($containerAddress6 != "") && ($routerAddress6 = ""))) do={ :set problems ($problems . "\n- settings: give both IPv6 addresses or none") }
:if ($containerAddress6 != "") do={
  :if ($minor < 11) do={ :set problems ($problems . "\n- RouterOS $release: IPv6 for containers needs 7.11 or later; leave the IPv6 addresses empty") }
  :if ([/ipv6/settings/get disable-ipv6] = true) do={ :set problems ($problems . "\n- IPv6 is turned off: /ipv6/settings/set disable-ipv6=no, or leave the IPv6 addresses empty") }
}
:if (($wantPrivileged = "yes") && ($minor < 24)) do={ :set notes ($notes . "\n- wantPrivileged needs 7.24 or later and is left out") }

:if ($notes != "") do={ :put ("wattle: note:" . $notes) }
:if ($problems != "") do={
  :put ("wattle: nothing was changed. To be put right:" . $problems)
  :error "wattle: preflight failed, nothing was changed"
}
:put "wattle: preflight passed: RouterOS $release, image for $wanted, UDP port $meshPort"

# ---- what the versions have in common with their own words -------------------------------------------------------
:local mountGroup "name"
:local envGroup "name"
:local containerOptions "envlist=$tag mounts=$tag"
:if ($minor = 20) do={ :set envGroup "list"; :set containerOptions "envlists=$tag mounts=$tag" }
:if ($minor >= 21) do={ :set envGroup "list"; :set mountGroup "list"; :set containerOptions "envlists=$tag mountlists=$tag" }
:if ($minor >= 19) do={ :set containerOptions ($containerOptions . " name=$tag") }
:if (($minor >= 20) && ($minor <= 22)) do={ :set containerOptions ($containerOptions . " auto-restart-interval=30s") }
:if ($minor >= 23) do={ :set containerOptions ($containerOptions . " restart-policy=on-failure restart-interval=30s memory-max=67108864") }
:if (($minor >= 24) && ($wantPrivileged = "yes")) do={ :set containerOptions ($containerOptions . " privileged=yes") }
:if ($imageFile != "") do={ :set containerOptions ($containerOptions . " file=\"$imageFile\"") } else={ :set containerOptions ($containerOptions . " remote-image=\"$imageName\"") }
:set containerOptions ($containerOptions . " interface=$tag root-dir=\"" . $base . "wattle-root\" hostname=$tag dns=$nameServers logging=yes start-on-boot=yes comment=\"$tag\"")

# How many containers with this comment are in this state: a property up to some version, a flag since.
:local inState do={
  :local found 0
  :local code
  :do { :set code [:parse (":return [:len [/container/find where comment=\"" . $mark . "\" and status=\"" . $state . "\"]]")]; :set found [$code] } on-error={}
  :if ($found = 0) do={
    :do { :set code [:parse (":return [:len [/container/find where comment=\"" . $mark . "\" and " . $state . "]]")]; :set found [$code] } on-error={}
  }
  :return $found
}

:if ($runMode != "check") do={
  :local step "start"
  :do {
    :if ($runMode = "update") do={
      # ---- update: only the container goes; its network, environment and mounted folder stay -------------------------
      :set step "stopping the old container"
      :do { $run "/container/stop [/container/find where comment=\"$tag\"]" } on-error={}
      :local waited 0
      :while (([$inState mark=$tag state="stopped"] = 0) && ($waited < 60)) do={ :delay 1s; :set waited ($waited + 1) }
      :set step "removing the old container"
      $run "/container/remove [/container/find where comment=\"$tag\"]"
      :set waited 0
      :while (([$ask ":return [:len [/container/find where comment=\"$tag\"]]"] > 0) && ($waited < 120)) do={ :delay 1s; :set waited ($waited + 1) }
    } else={
      # ---- network -------------------------------------------------------------------------------------------------
      :set step "the link"
      :if ($containerAddress6 = "") do={
        $run "/interface/veth/add name=$tag address=$containerAddress/30 gateway=$routerAddress comment=\"$tag\""
      } else={
        $run "/interface/veth/add name=$tag address=$containerAddress/30,$containerAddress6/64 gateway=$routerAddress gateway6=$routerAddress6 comment=\"$tag\""
      }
      /ip/address/add address=($routerAddress . "/30") interface=$tag comment=$tag
      /interface/list/member/add list=$lanList interface=$tag comment=$tag
      :set step "the firewall"
      /ip/firewall/nat/add chain=srcnat action=masquerade src-address=$containerAddress out-interface-list=$wanList comment=$tag
      /ip/firewall/nat/add chain=dstnat action=dst-nat protocol=udp dst-port=$meshPort in-interface-list=$wanList to-addresses=$containerAddress to-ports=$meshPort comment=$tag
      # Before the first rule that is not the router's own; in an empty table there is nothing to stand before.
      :local rules [/ip/firewall/filter/find where chain="forward" and dynamic=no]
      :if ([:len $rules] > 0) do={
        /ip/firewall/filter/add chain=forward action=accept protocol=udp dst-address=$containerAddress dst-port=$meshPort comment=$tag place-before=[:pick $rules 0]
      } else={
        /ip/firewall/filter/add chain=forward action=accept protocol=udp dst-address=$containerAddress dst-port=$meshPort comment=$tag
      }
      :set step "the rule against loops"
      /routing/rule/add src-address=($containerAddress . "/32") action=lookup-only-in-table table=main comment=$tag
      :if ($containerAddress6 != "") do={
        :set step "IPv6"
        /ipv6/address/add address=($routerAddress6 . "/64") interface=$tag advertise=no comment=$tag
        :local rules6 [/ipv6/firewall/filter/find where chain="forward" and dynamic=no]
        :if ([:len $rules6] > 0) do={
          /ipv6/firewall/filter/add chain=forward action=accept protocol=udp dst-address=($containerAddress6 . "/128") dst-port=$meshPort comment=$tag place-before=[:pick $rules6 0]
        } else={
          /ipv6/firewall/filter/add chain=forward action=accept protocol=udp dst-address=($containerAddress6 . "/128") dst-port=$meshPort comment=$tag
        }
        /routing/rule/add src-address=($containerAddress6 . "/128") action=lookup-only-in-table table=main comment=$tag
      }
      :set step "the routes into the mesh"
      :foreach meshPrefix in=[:toarray $meshRoutes] do={
        /ip/route/add dst-address=$meshPrefix gateway=$containerAddress check-gateway=ping comment=$tag
      }
      # ---- what the container gets -----------------------------------------------------------------------------------
      :set step "environment and mounts"
      $run "/container/envs/add $envGroup=$tag key=WATTLE_LOG value=\"$logLevel\""
      # RouterOS does not carry gateway6 into the container: there the daemon sets the route.
      :if ($containerAddress6 != "") do={ $run "/container/envs/add $envGroup=$tag key=WATTLE_GATEWAY6 value=\"$routerAddress6\"" }
      $run ("/container/mounts/add $mountGroup=$tag src=\"" . $base . "wattle\" dst=\"/etc/wattle\"")
      :set step "the folder for pulling images"
      :if ($imageName != "") do={
        :if ([:tostr [$ask ":return [/container/config/get tmpdir]"]] = "") do={ $run ("/container/config/set tmpdir=\"" . $base . "wattle-tmp\"") }
      }
    }
    # ---- the container -----------------------------------------------------------------------------------------------
    :set step "adding the container ($containerOptions)"
    $run ("/container/add " . $containerOptions)
    :set step "unpacking the image: /log/print says why"
    :local waited 0
    :while (([$inState mark=$tag state="stopped"] = 0) && ($waited < 300)) do={ :delay 1s; :set waited ($waited + 1) }
    :if ([$inState mark=$tag state="stopped"] = 0) do={ :error "the image was not unpacked within 5 minutes" }
    :set step "starting the container: /log/print says why"
    $run "/container/start [/container/find where comment=\"$tag\"]"
    :set waited 0
    :while (([$inState mark=$tag state="running"] = 0) && ($waited < 30)) do={ :delay 1s; :set waited ($waited + 1) }
    :if ([$inState mark=$tag state="running"] = 0) do={ :error "the container does not run" }
  } on-error={
    :put "wattle: failed at $step"
    :put "wattle: uninstall.rsc removes what was made; docs/routeros.md has the cures"
    :error "wattle: failed at $step"
  }
  :put ("wattle: running. Its configuration is " . $base . "wattle/wattle.json; what it says: /log/print where topics~\"container\"")
}
